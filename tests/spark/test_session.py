"""The session of a driver as `spark-submit` starts it from a profile: it runs as the profile says, and an unfit one is
refused.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark import SparkConf

from recoveryd.adapters.spark.command import SparkProfile, spark_home, submit_command, submit_environment
from recoveryd.adapters.spark.processes import start_session
from recoveryd_jobs.driver.session import ask_for_executors

pytestmark = pytest.mark.spark

START_S = 300.0
# The first steps of a driver; then it prints what its running context knows.
PROBE = """
import json, sys
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.driver.session import start_session
try:
    context = start_session(1)
except JobError as error:
    print("REFUSED", json.dumps([error.code, error.message]), flush=True)
    sys.exit(1)
seen = dict(context.getConf().getAll()) | {"running master": context.master, "slots": str(context.defaultParallelism)}
print("SEEN", json.dumps(seen), flush=True)
context.stop()
"""


# Where driver and workers load pyspark from, and whether they loaded modules that only tables need.
LOADED = """
import json, sys
from recoveryd_jobs.driver.session import start_session

def loaded(_):
    return [[sys.modules["pyspark"].__file__, "pandas" in sys.modules]]

context = start_session(1)
print("SEEN", json.dumps(loaded(None) + context.parallelize(range(2), 2).mapPartitions(loaded).collect()), flush=True)
context.stop()
"""


def run_probe(
    folder: Path, profile: SparkProfile, environment: Mapping[str, str] | None = None, code: str = PROBE
) -> tuple[str, object]:
    """The kind and content of the probe's output, started like an attempt with this profile."""
    probe = folder / "probe.py"
    probe.write_text(code, encoding="utf-8")
    command = submit_command(profile, "a-probe", folder, [])
    command[-1] = str(probe)
    log = folder / "driver.log"
    process = start_session(command, submit_environment() | (environment or {}), folder, log)
    try:
        process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    told = [line for line in log.read_text().splitlines() if line.startswith(("SEEN ", "REFUSED "))]
    assert len(told) == 1, log.read_text()
    kind, _, content = told[0].partition(" ")
    return kind, json.loads(content)


def test_master_and_every_property_of_the_profile_are_those_of_the_running_context(tmp_path: Path) -> None:
    conf = {
        "spark.app.name": "of the profile",
        "spark.task.maxFailures": "7",
        "spark.log.level": "WARN",
        "spark.ui.showConsoleProgress": "true",
        "spark.sql.runSQLOnFiles": "true",
        "spark.local.dir": str(tmp_path / "scratch"),
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.RUN_BY": "two words = one value",
        "spark.of.nobody": "odd: \\ \"'#!=\u00e9\ttab",
    }
    kind, seen = run_probe(tmp_path, SparkProfile("local[3,5]", "600m", conf))
    assert kind == "SEEN"
    assert isinstance(seen, dict)
    wanted = conf | {"spark.master": "local[3,5]", "spark.driver.memory": "600m", "spark.submit.deployMode": "client"}
    assert {name: seen.get(name) for name in wanted} == wanted
    assert (seen["running master"], seen["slots"]) == ("local[3,5]", "3")


def test_what_no_profile_says_has_a_safe_default(tmp_path: Path) -> None:
    kind, seen = run_probe(tmp_path, SparkProfile())
    assert kind == "SEEN"
    assert isinstance(seen, dict)
    defaults = {
        "running master": "local[2,4]",
        "spark.speculation": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "recoveryd_jobs.worker_daemon",
        "spark.sql.runSQLOnFiles": "false",
    }
    assert {name: seen.get(name) for name in defaults} == defaults


def test_speculation_in_a_profile_is_refused(tmp_path: Path) -> None:
    assert run_probe(tmp_path, SparkProfile(conf={"spark.speculation": "TRUE"})) == (
        "REFUSED",
        ["internal", "spark.speculation is on; two copies of a lane would fence each other. Set it to false."],
    )


def test_defaults_of_the_installation_count_but_cannot_switch_speculation_on(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memory 1g\nspark.speculation true\n")
    kind, seen = run_probe(tmp_path, SparkProfile(), {"SPARK_CONF_DIR": str(tmp_path)})
    assert kind == "SEEN"
    assert isinstance(seen, dict)
    assert (seen["spark.executor.memory"], seen["spark.speculation"]) == ("1g", "false")


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({}, "5"),
        ({"spark.executor.cores": "2"}, "3"),
        ({"spark.executor.cores": "4", "spark.task.cpus": "2"}, "3"),
        ({"spark.dynamicAllocation.minExecutors": "9"}, "9"),
    ],
)
def test_with_dynamic_allocation_executors_for_all_lanes_are_asked_for_and_kept(
    conf: dict[str, str], wanted: str
) -> None:
    made = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    ask_for_executors(made, 5)
    assert made.get("spark.dynamicAllocation.minExecutors") == wanted


def test_driver_and_workers_take_pyspark_compiled_from_its_folder_and_load_no_pandas(tmp_path: Path) -> None:
    """Otherwise each start would compile the archive that `spark-submit` puts first on the path, in the driver and in
    each task.
    """
    kind, seen = run_probe(tmp_path, SparkProfile("local[2]"), code=LOADED)
    assert (kind, seen) == ("SEEN", [[str(spark_home() / "__init__.py"), False]] * 3)
