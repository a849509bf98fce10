"""The program that starts an executor in a pod, run here against a real driver: it makes an executor with recoveryd's
slots from the variables that Kubernetes sets.
"""

import subprocess
from pathlib import Path

import pytest

from recoveryd.adapters.spark.command import SparkProfile, submit_command, submit_environment
from recoveryd.adapters.spark.processes import end_group, start_session
from tests.e2e.processes import wait_for
from tests.e2e.spark_cluster import SparkCluster, make_environment

pytestmark = [pytest.mark.spark]

START_S = 120.0
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "containers" / "executor.sh"
# A driver that waits for executors of a cluster without any, and then runs a task that says where it runs.
DRIVER = """
import json, os, time
from recoveryd_jobs.driver import task_slots
from recoveryd_jobs.driver.session import start_session
context = start_session(1)
conf = context.getConf()
print("URL", f"spark://CoarseGrainedScheduler@{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}", context.applicationId, flush=True)
give_up_s = time.monotonic() + 400
while task_slots.count(context) < 3 and time.monotonic() < give_up_s:
    time.sleep(0.1)
def where(_):
    import recoveryd_jobs.lane.life
    yield recoveryd_jobs.lane.life.__file__, os.environ.get("OF_THE_POD")
print("SLOTS", task_slots.count(context), json.dumps(context.parallelize([0], 1).mapPartitions(where).collect()), flush=True)
context.stop()
"""


def test_the_script_starts_an_executor_that_runs_our_code(tmp_path: Path) -> None:
    with SparkCluster(tmp_path / "spark", workers=0) as cluster:
        folder = tmp_path / "driver"
        folder.mkdir()
        (folder / "driver.py").write_text(DRIVER, encoding="utf-8")
        command = submit_command(SparkProfile(cluster.master, conf=cluster.profile), "pods", folder, [])
        command[-1] = str(folder / "driver.py")
        log = folder / "driver.log"
        driver = start_session(command, submit_environment(), folder, log)

        def said(word: str) -> list[str]:
            lines = [line.split(" ", 2) for line in log.read_text().splitlines() if line.startswith(f"{word} ")]
            assert driver.poll() is None or lines, log.read_text()
            return lines[0][1:] if lines else []

        try:
            url, application = wait_for(lambda: said("URL"), START_S, log.read_text)
            pod = make_environment(cluster.folder / "pod") | {
                "RECOVERYD_PYTHON": str(cluster.python),
                "OF_THE_POD": "yes",
                "SPARK_DRIVER_URL": url,
                "SPARK_APPLICATION_ID": application,
                "SPARK_EXECUTOR_ID": "1",
                "SPARK_EXECUTOR_CORES": "3",
                "SPARK_EXECUTOR_MEMORY": "512m",
                "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
                "SPARK_EXECUTOR_POD_NAME": "pod-1",
                "SPARK_RESOURCE_PROFILE_ID": "0",
                "SPARK_JAVA_OPT_0": f"-Dspark.driver.port={url.rpartition(':')[2]}",
                "SPARK_JAVA_OPT_1": "-Dof.the.pod=two words",
            }
            executor = start_session(["bash", str(SCRIPT), "executor"], pod, folder, folder / "executor.log")
            try:
                slots, seen = wait_for(lambda: said("SLOTS"), START_S, lambda: log.read_text() + (folder / "executor.log").read_text())  # fmt: skip
                assert slots == "3"
                assert "recoveryd_jobs.zip/recoveryd_jobs/lane/life.py" in seen
                assert '"yes"' in seen
                driver.wait(120)
                executor.wait(120)  # it leaves with its driver
            finally:
                end_group(executor.pid)
        finally:
            end_group(driver.pid)


def test_the_script_runs_nothing_but_executors() -> None:
    done = subprocess.run(["bash", SCRIPT, "driver"], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (2, "this image runs only executors by this script, not driver\n")
