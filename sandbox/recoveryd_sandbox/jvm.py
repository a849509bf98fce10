"""Programs in Java, a broker, a mirror or an application, each in a process of its own session, with a log that cannot
fill the disk.

Where `recoveryd_sandbox.class_archives` made an archive of a bundle's classes, programs of that bundle map it; without
one, or with one of another Java, they start as usual.
"""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Measured on two cores over 5 M records: the quick compiler alone starts the broker in 1.6 s instead of 2.5 s, and
# takes and serves records with no more CPU; the optimising one costs more than it gains in the life of a sandbox. In
# seven minutes of 367 tests brokers took 134 s of CPU with the quick one alone, 256 s with both.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
# What Kafka's own start script sets. A broker that lives for minutes needs half the CPU with it (at 6,000 records/s 14
# instead of 28 % of a core), and latencies of a broker tell little when its collector stops it for longer than in use.
AS_IN_USE = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java executable, the jars of one bundle, and a folder of classes of our own, if there is one. `flags`: of the
    virtual machine, `SHORT_LIVED` or `AS_IN_USE`.
    """

    java: Path
    jars: Path
    classes: Path | None = None
    flags: tuple[str, ...] = SHORT_LIVED

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        # Java takes an archive only when the jars that it was made of come first.
        where = f"{self.jars}/*" if self.classes is None else f"{self.jars}/*:{self.classes}"
        return [str(self.java), *self.flags, *self._mapped(), *options, "-cp", where, main, *arguments]

    @property
    def archive(self) -> Path:
        """Where the bundle's classes lie for this Java once they were archived."""
        made_with = f"{self.java.resolve()} {self.java.stat().st_mtime_ns}"
        return self.jars.with_name(f"{self.jars.name}-{hashlib.sha256(made_with.encode()).hexdigest()[:16]}.jsa")

    def _mapped(self) -> tuple[str, ...]:
        archive = self.archive
        return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off") if archive.is_file() else ()

    def logged(self, main: str, *arguments: str, log_file: Path, heap: str) -> list[str]:
        """The command of a `main` that logs into `log_file`; its temporary files lie beside that, where they do no harm
        when a kill leaves them.
        """
        logging, scratch = log_file.with_suffix(".log4j2.properties"), log_file.parent / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        logging.write_text(log4j2_properties(log_file), encoding="utf-8")
        options = (f"-Xmx{heap}", f"-Dlog4j2.configurationFile={logging}", f"-Djava.io.tmpdir={scratch}")
        return self.command(main, *arguments, options=options)


def start(command: list[str], log_file: Path) -> subprocess.Popen[bytes]:
    """Starts it in the folder of `log_file`; what it prints goes to a `.out` file beside that."""
    with out_file(log_file).open("wb") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log_file.parent, start_new_session=True
        )


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
