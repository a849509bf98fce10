"""Fetches the jars of Apache Kafka and of its other programs once, through the Ivy that PySpark ships.

Why Ivy: it is already on the disk, it resolves and checks dependencies, and it needs neither Maven nor root. Where it
fetches from is Ivy's own default or the settings file named by `RECOVERYD_IVY_SETTINGS`; no repository is named here. A
folder of jars under its final name is always complete: fetching happens in a working folder that is renamed at the end.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.errors import JarsUnavailable, SandboxError
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.locks import locked

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
ECJ_VERSION = "3.37.0"  # compiles for Java 17 and runs on a Java without javac, which is all that the rest needs

# Kafka's own; without the binding to slf4j the broker would log nothing, not even why it died.
_LOG4J_VERSION = "2.25.4"

_ATTEMPTS_MAX = 3
_RETRY_PAUSE_S = 3.0
_OUTPUT_TAIL_CHARS = 600


@dataclass(frozen=True)
class Bundle:
    """Modules (organisation, name, revision) with their dependencies, under one name; a folder without the jar
    `witness` is not complete. `parts`: single jars, with their classifiers.
    """

    name: str
    title: str
    size_mb: int
    modules: tuple[tuple[str, str, str], ...]
    witness: str
    parts: tuple[tuple[str, str, str, str], ...] = ()


_LOG4J = ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION)
BROKER = Bundle(
    f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}",
    f"Apache Kafka {KAFKA_VERSION}",
    44,
    (("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION), _LOG4J),
    f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}.jar",
)
# For tests and trials only: nothing of recoveryd needs it.
MIRROR_MAKER = Bundle(
    f"mirror-maker-{KAFKA_VERSION}",
    f"MirrorMaker of Apache Kafka {KAFKA_VERSION}",
    40,
    (("org.apache.kafka", "connect-mirror", KAFKA_VERSION), _LOG4J),
    f"connect-mirror-{KAFKA_VERSION}.jar",
)
STREAMS = Bundle(
    f"streams-{KAFKA_VERSION}",
    f"Kafka Streams {KAFKA_VERSION} and a compiler",
    100,
    (
        ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-streams-examples", KAFKA_VERSION),
        ("org.eclipse.jdt", "ecj", ECJ_VERSION),
        _LOG4J,
    ),
    f"kafka-streams-{KAFKA_VERSION}.jar",
)
TOOLS = Bundle(
    f"tools-{KAFKA_VERSION}",
    f"Kafka Connect and the command line tools of Apache Kafka {KAFKA_VERSION}",
    43,
    (
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "connect-file", KAFKA_VERSION),
        _LOG4J,
    ),
    f"kafka-tools-{KAFKA_VERSION}.jar",
)


# Kafka's own stand-in for remote storage: a folder. For tests only.
REMOTE_STORAGE = Bundle(
    f"remote-storage-{KAFKA_VERSION}",
    f"the remote storage of the tests of Apache Kafka {KAFKA_VERSION}",
    1,
    (),
    f"kafka-storage-{KAFKA_VERSION}-test.jar",
    (("org.apache.kafka", "kafka-storage", KAFKA_VERSION, "test"),),
)


def _ivy_xml(bundle: Bundle) -> str:
    needed = "".join(
        f'\n    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default,runtime"/>'
        for org, name, rev in bundle.modules
    )
    needed += "".join(
        f'\n    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" transitive="false">'
        f'<artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier}"/></dependency>'
        for org, name, rev, classifier in bundle.parts
    )
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="recoveryd" module="sandbox-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{needed}
  </dependencies>
</ivy-module>
"""


def default_cache_dir() -> Path:
    """`$RECOVERYD_CACHE_DIR`, else `$XDG_CACHE_HOME/recoveryd`, else `~/.cache/recoveryd`. Not created here."""
    own = os.environ.get("RECOVERYD_CACHE_DIR", "").strip()
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(xdg) if xdg else Path.home() / ".cache") / "recoveryd"


def kafka_jars(cache_dir: Path | None = None, deadline_s: float = 600.0, bundle: Bundle = BROKER) -> Path:
    """Folder with the jars of a bundle (by default of a Kafka broker); fetched on first use (about 40 s, 44 MB), then
    from the cache.

    Safe to call from several processes at once: one fetches, the others wait for it, all within `deadline_s`.
    Raises `JarsUnavailable` (offline, or not done in time), `LockTimeout` or `JavaMissing`.
    """
    root = default_cache_dir() if cache_dir is None else cache_dir
    jars = root / bundle.name
    if jars.is_dir():
        return jars
    give_up_at_s = time.monotonic() + deadline_s
    with locked(root / "kafka-jars.lock", deadline_s):
        if not jars.is_dir():
            _fetch(root, bundle, give_up_at_s)
    return jars


def _fetch(root: Path, bundle: Bundle, give_up_at_s: float) -> None:
    """Fetches into a working folder next to the jars, then renames. Ivy's own cache lives there too, so a retry
    resumes.
    """
    java = find_java()
    work = root / f"{bundle.name}.partial"
    work.mkdir(exist_ok=True)
    (work / "ivy.xml").write_text(_ivy_xml(bundle), encoding="utf-8")
    size = f"{bundle.size_mb} MB, once"
    print(f"recoveryd: fetching {bundle.title} ({size}) into {root}", file=sys.stderr, flush=True)
    output = ""
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        output = _run_ivy(java, work, bundle, give_up_at_s)
        if not output:
            (work / "jars").replace(root / bundle.name)
            shutil.rmtree(work, ignore_errors=True)
            return
        if attempt < _ATTEMPTS_MAX and time.monotonic() + _RETRY_PAUSE_S < give_up_at_s:
            time.sleep(_RETRY_PAUSE_S)
    raise JarsUnavailable(
        f"Could not fetch the jars of {bundle.title} (once, {bundle.size_mb} MB); Ivy said: {output}",
        "Check the network and try again; behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... "
        "-Dhttps.proxyPort=..., for an own repository RECOVERYD_IVY_SETTINGS=<ivysettings.xml>.",
    )


def _run_ivy(java: Path, work: Path, bundle: Bundle, give_up_at_s: float) -> str:
    """Runs Ivy once. Returns the empty string when all jars are in `work/jars`, else the end of what Ivy printed."""
    shutil.rmtree(work / "jars", ignore_errors=True)
    command = [
        str(java), "-Xmx256m", "-XX:+UseSerialGC", f"-Divy.default.ivy.user.dir={work / 'user'}",
        "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn", "-confs", "default",
        "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache"),
        "-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]"), "-types", "jar", "bundle",
    ]  # fmt: skip
    settings = os.environ.get("RECOVERYD_IVY_SETTINGS", "").strip()
    if settings:
        command += ["-settings", settings]
    left_s = max(1.0, give_up_at_s - time.monotonic())
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left_s, cwd=work, check=False)
    except subprocess.TimeoutExpired:
        return f"nothing for {left_s:.0f} s"
    is_whole = (work / "jars" / bundle.witness).is_file()
    if done.returncode == 0 and is_whole:
        return ""
    text = " ".join((done.stdout + done.stderr).split())
    return text[-_OUTPUT_TAIL_CHARS:] or f"exit code {done.returncode}, and no jars"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # found, not imported: the import alone takes a second
    if spec is None or spec.origin is None:
        raise JarsUnavailable("PySpark is not installed, and its Ivy brings the Kafka jars.", "Run `make setup`.")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailable("This PySpark ships no Ivy jar.", "Run `make setup` to install the tested version.")
    return found[-1]


def main() -> int:
    """Fetches the jars when they are not cached; exit code 1 with the next step on stderr when that fails."""
    try:
        kafka_jars()
    except SandboxError as error:
        print(f"recoveryd: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
