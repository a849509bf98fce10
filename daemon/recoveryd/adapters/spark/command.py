"""The command line and environment of a Spark application. Nothing is started here.

Neither holds a secret: client properties travel in the spec file alone, and Spark's properties, some of which are
secret too, in a file beside it. The daemon does not import pyspark; it only needs to know where it lies.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recoveryd.errors import LaunchError
from recoveryd.kernel.catalogue import Code
from recoveryd_jobs import contract

JOBS_DIR = Path(contract.__file__).resolve().parents[1]

# A driver lives for seconds to hours and mostly waits: quick to start and small beats fast in the long run.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
JAVA_OPTIONS = f"{QUICK_START} -Djava.net.preferIPv4Stack=true"
PROPERTIES_FILE = "spark.conf"
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_KEPT_VARIABLES = ("RECOVERYD_FAILPOINT", "RECOVERYD_FAILPOINT_ONCE")


@dataclass(frozen=True, slots=True)
class SparkProfile:
    """A named way to run applications. `warm` spare drivers are kept ready; `task_slots` tasks run at once. `nice`: how
    much nicer than the daemon what runs on this machine is.
    """

    master: str = "local[2,4]"
    driver_memory: str = "512m"
    conf: Mapping[str, str] = field(default_factory=dict)
    warm: int = 0
    task_slots: int = 2
    nice: int = 0

    @property
    def is_local(self) -> bool:
        return self.master == "local" or self.master.startswith("local[")


def spark_home() -> Path:
    """Where pyspark is installed. Raises `LaunchError`."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise LaunchError("pyspark is not installed beside the daemon.", retriable=False)
    return Path(next(iter(found.submodule_search_locations)))


def class_archive() -> Path | None:
    """Where the archive of Spark's classes for this Java lies once `recoveryd.adapters.spark.class_archive` made it;
    None without a Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    try:
        java = java.resolve(strict=True)
        changed_ns = java.stat().st_mtime_ns
    except OSError:
        return None
    name = hashlib.sha256(f"{java} {changed_ns}".encode()).hexdigest()[:16]
    return spark_home() / f"recoveryd-{name}.jsa"


def java_options() -> str:
    """Of a driver's JVM; with the archive of Spark's classes, once there is one."""
    archive = class_archive()
    if archive is None or not archive.exists() or _has_space(archive):
        return JAVA_OPTIONS
    return f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"


def _has_space(path: Path) -> bool:
    """Options of a JVM are words with spaces between them."""
    return any(map(str.isspace, str(path)))


def _joined(ours: str, theirs: str) -> str:
    """Of an option that is given twice a JVM takes the last one, but with two collectors it does not start."""
    if _COLLECTOR.search(theirs):
        ours = _COLLECTOR.sub("", ours)
    return " ".join((*ours.split(), theirs))


def submit_command(profile: SparkProfile, name: str, folder: Path, job: Sequence[str]) -> list[str]:
    """`spark-submit ... main.py JOB...`, after writing its properties to a file of `folder`, which takes Spark's
    scratch files too. The profile's conf wins over ours; its options of the driver's JVM come behind ours.

    The driver runs here in every case, because its spec is here. Raises `LaunchError` when Java or pyspark is missing,
    OSError when the file cannot be written.
    """
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise LaunchError(
            "No java was found on PATH, and JAVA_HOME is not set.", code=Code.JAVA_MISSING, retriable=False
        )
    scratch = folder / "spark"
    scratch.mkdir(exist_ok=True)
    options = java_options()
    if not _has_space(scratch):
        options += f" -Djava.io.tmpdir={scratch}"  # what a killed JVM leaves there goes with the folder
    given = dict(profile.conf)
    if _DRIVER_OPTIONS in given:
        given[_DRIVER_OPTIONS] = _joined(options, given[_DRIVER_OPTIONS])
    conf = {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(scratch),
        _DRIVER_OPTIONS: options,
        "spark.pyspark.driver.python": sys.executable,  # else a Python that the profile names for executors is ours too
    }
    if profile.is_local:
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        conf |= {"spark.executor.extraJavaOptions": QUICK_START}
    properties = folder / PROPERTIES_FILE
    with os.fdopen(os.open(properties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("".join(f"{_escaped(k, key=True)}={_escaped(v)}\n" for k, v in (conf | given).items()))
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--master",
        profile.master,
        "--deploy-mode",
        "client",
        "--driver-memory",
        profile.driver_memory,
        "--properties-file",
        str(properties),
        "--load-spark-defaults",
        str(JOBS_DIR / "main.py"),
        *job,
    ]


def _escaped(text: str, *, key: bool = False) -> str:
    """As a Java properties file has it."""
    made = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    )
    if key:
        return re.sub(r"([ :=#!])", r"\\\1", made)
    return "\\" + made if made.startswith(" ") else made


def submit_environment(
    environ: Mapping[str, str] = os.environ, *, withheld: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Our own environment without our settings (they may hold secrets) and without those that the config refers to,
    made to use this Python and this code on every side.
    """
    ours = {k for k in environ if k.startswith("RECOVERYD_") and k not in _KEPT_VARIABLES}
    kept = {k: v for k, v in environ.items() if k not in ours | withheld}
    paths = [str(JOBS_DIR.parent), *filter(None, [environ.get("PYTHONPATH")])]
    return kept | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LAUNCHER_OPTS": QUICK_START,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
    }
