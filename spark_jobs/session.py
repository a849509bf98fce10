"""The Spark session of a driver: safe settings, a quick start, and workers that can import this package.

What the command line of `spark-submit` set wins, except that speculation is refused: two copies of a lane at the same time would fence each other
for ever. JVM flags for a quick start have to be on the command line, because the JVM runs before this code does; `SUBMIT_CONF` names them.
"""

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from spark_jobs.errors import JobError

MASTER = "local[2,4]"
LOOPBACK = "127.0.0.1"

_DEFAULTS = {
    "spark.app.name": "recoveryd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    "spark.python.daemon.module": "spark_jobs.worker_daemon",
    "spark.sql.runSQLOnFiles": "false",
}


def start_session(slots_wanted: int) -> Any:
    """The SparkContext. Raises JobError when the session is not fit to copy: speculation on, or fewer slots than lanes."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  (its import takes a while; the driver reports before)

    conf = SparkConf()
    if conf.get("spark.speculation", "false") != "false":
        raise JobError(
            "internal", "spark.speculation is on; two copies of a lane would fence each other. Set it to false."
        )
    master = conf.get("spark.master", MASTER)
    conf.setIfMissing("spark.master", MASTER)
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    if is_local(master):
        conf.setIfMissing("spark.driver.host", LOOPBACK)
        conf.setIfMissing("spark.driver.bindAddress", LOOPBACK)
    context = SparkContext.getOrCreate(conf)
    if is_local(master):
        check_slots(context, slots_wanted)
    else:
        context.addPyFile(str(package_zip(Path(tempfile.mkdtemp(prefix="recoveryd-")))))
    return context


def check_slots(context: Any, slots_wanted: int) -> None:
    """All lanes have to run at once, or a lane that follows the live head would keep the others waiting for ever."""
    slots = int(context.defaultParallelism)
    if is_local(context.master) and slots < slots_wanted:
        raise JobError(
            "internal", f"The plan has {slots_wanted} lanes, the Spark master {context.master} only {slots} slots."
        )


def is_local(master: str) -> bool:
    return master.startswith("local")


def warm_workers(context: Any) -> None:
    """Start one Python worker per slot and let each import what a lane needs."""
    slots = int(context.defaultParallelism)
    context.parallelize(range(slots), slots).foreachPartition(_import_lane)


def _import_lane(items: Any) -> None:
    import spark_jobs.lanes  # noqa: F401, PLC0415

    for _ in items:
        pass


def package_zip(folder: Path) -> Path:
    """Make a zip of this package in `folder`, for workers on other machines to import."""
    source = Path(__file__).resolve().parent
    target = folder / "spark_jobs.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.glob("*.py")):
            archive.write(file, f"spark_jobs/{file.name}")
    return target
