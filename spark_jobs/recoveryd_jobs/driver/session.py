"""The Spark session of a driver: safe settings, a quick start, and workers that can import this package.

Whatever `spark-submit` was told wins: master, properties file and command line are all read before a default is set.
Only what would break a copy is refused: two running copies of a lane would fence each other for ever, and a driver
inside the cluster would not have its spec file. JVM flags for a quick start have to be on the command line, because the
JVM runs before this code does.
"""

import zipfile
from pathlib import Path
from typing import Any

from recoveryd_jobs.driver import task_slots
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.python_path import prefer_compiled

MASTER = "local[2,4]"
LOOPBACK = "127.0.0.1"

_DEFAULTS = {
    "spark.app.name": "recoveryd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    "spark.sql.runSQLOnFiles": "false",
    # Each task has a process of its own, so that none keeps the memory of an earlier one: a lane's buffers would count
    # against the proof.
    "spark.python.worker.reuse": "false",
}
# Only where driver and workers share a machine: the process that the workers are forked from starts with this package
# on its path. On other machines the package travels with the application, and reaches an executor only after its Python
# was started.
_LOCAL_DEFAULTS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.python.daemon.module": "recoveryd_jobs.worker_daemon",
}


def start_session(slots_wanted: int) -> Any:
    """The SparkContext. Raises JobError when the session is not fit to copy.

    Executors of a cluster start one after the other; `task_slots` counts how many tasks can run now. With dynamic
    allocation at least as many are requested as `slots_wanted` needs, because lanes run until they are told to end.
    """
    prefer_compiled()
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  (the import is slow, and the driver reports before it)
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    # A SparkConf made without a JVM is empty and knows nothing of the command line, so the JVM is started first.
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    without_dataframes(gateway)
    conf = SparkConf(_jvm=gateway.jvm)
    conf.setIfMissing("spark.master", MASTER)
    refuse_unfit(conf)
    local = is_local(conf.get("spark.master", MASTER))
    for name, value in (_DEFAULTS | (_LOCAL_DEFAULTS if local else {})).items():
        conf.setIfMissing(name, value)
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        ask_for_executors(conf, slots_wanted)
    context = SparkContext(conf=conf, gateway=gateway)
    if not local:
        scratch = Path(context._temp_dir)  # noqa: SLF001  (below spark.local.dir, removed with the application)
        context.addPyFile(str(package_zip(scratch)))
    return context


def without_dataframes(gateway: Any) -> None:
    """Skip the converters of pyspark.sql: no call to the JVM passes a value of numpy or SQL here, and testing each
    argument for that loads pandas.
    """
    client = gateway._gateway_client  # noqa: SLF001  (the only handle on it)
    client.converters = [c for c in client.converters if not type(c).__module__.startswith("pyspark.sql")]


def refuse_unfit(conf: Any) -> None:
    """Raises JobError for properties with which no copy can be exact, wherever they were set."""
    if conf.get("spark.speculation", "false").lower() != "false":
        raise JobError(
            "internal", "spark.speculation is on; two copies of a lane would fence each other. Set it to false."
        )
    if conf.get("spark.submit.deployMode", "client") != "client":
        raise JobError(
            "internal",
            "spark.submit.deployMode is not client: the driver has to run beside the daemon, where its spec is. "
            "Remove it.",
        )


def ask_for_executors(conf: Any, slots_wanted: int) -> None:
    """Under dynamic allocation: keep as many executors as the lanes need, from the start to the end."""
    each = max(1, int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))
    wanted = -(-slots_wanted // each)
    if int(conf.get("spark.dynamicAllocation.minExecutors", "0")) < wanted:
        conf.set("spark.dynamicAllocation.minExecutors", str(wanted))


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def warm_workers(context: Any) -> None:
    """Start the process of each executor that later workers are forked from, and let it load the modules that a lane
    needs.
    """
    number = max(1, task_slots.count(context))
    context.parallelize(range(number), number).foreachPartition(_import_lane)


def _import_lane(items: Any) -> None:
    import recoveryd_jobs.lane.life  # noqa: F401, PLC0415

    for _ in items:
        pass


def package_zip(folder: Path) -> Path:
    """Make a zip of this package in `folder`, for workers on other machines to import."""
    source = Path(__file__).resolve().parents[1]
    target = folder / "recoveryd_jobs.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*.py")):
            archive.write(file, Path(source.name, file.relative_to(source)).as_posix())
    return target
