"""The driver as a real Spark application: `spark-submit main.py`, its phases, its exit codes, its workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from recoveryd.adapters.spark.command import java_options
from recoveryd_jobs import main as spark_main
from recoveryd_jobs.contract import DriverHeartbeat, JobSpec, PartitionRange, encode
from tests.builders.copying import Cluster, Recovery, assert_exact, rows
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.spark]

START_S = 400.0
COUNT = 20_000
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


class Application:
    """One started driver."""

    def __init__(self, folder: Path, *job: str) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("RECOVERYD_")} | {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(spark_main.__file__).parent.parent),
        }
        command = [
            str(_SUBMIT), "--master", "local[2,4]", "--driver-memory", "512m", "--driver-java-options",
            f"{java_options()} -Djava.io.tmpdir={folder}", "--conf", f"spark.local.dir={folder}", spark_main.__file__, *job,
        ]  # fmt: skip
        self._log = folder / "driver.log"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def wait(self, deadline_s: float = 30.0) -> int:
        """Waits for the exit code, and that nothing of the application's process group is left."""
        try:
            return self._process.wait(patient_s(deadline_s))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver did not end:\n{self.log()}") from None

    def send(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def end(self) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGKILL)
            self._process.wait(60.0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    """Starts drivers that do not outlive the test."""
    started: list[Application] = []

    def begin(*job: str) -> Application:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Application(folder, *job))
        return started[-1]

    yield begin
    for application in started:
        application.end()


@pytest.fixture
def recovery(cluster: Cluster) -> Recovery:
    """Two lanes of 20,000 records each."""
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, rows(COUNT, 0) + rows(COUNT, 1))
    ranges = [[PartitionRange(0, 0, COUNT)], [PartitionRange(1, 0, COUNT)]]
    return Recovery(cluster, source, target, ranges=ranges, partitions=2)


def write_spec(folder: Path, spec: JobSpec) -> str:
    file = folder / "spec.json"
    file.with_suffix(".new").write_bytes(encode(spec))
    file.with_suffix(".new").rename(file)
    return str(file)


def reports(recovery: Recovery) -> list[DriverHeartbeat]:
    return [r for r in recovery.reports() if isinstance(r, DriverHeartbeat)]


def await_phase(
    recovery: Recovery, application: Application, phase: str, deadline_s: float = START_S
) -> DriverHeartbeat:
    return recovery.await_report(
        lambda report: isinstance(report, DriverHeartbeat) and report.phase == phase,
        deadline_s,
        lambda: f"never {phase}:\n{application.log()}",
    )


def test_an_attempt_copies_verifies_when_told_and_leaves_when_told(
    recovery: Recovery, cluster: Cluster, start: Callable[..., Application], tmp_path: Path
) -> None:
    application = start("--spec", write_spec(tmp_path, recovery.spec))
    drained = await_phase(recovery, application, "drained")
    assert (drained.attempt, drained.error_code, drained.verification) == (1, "", None)
    assert_exact(recovery.ledger(), recovery.spec)
    sequence = recovery.direct("verify")
    verified = await_phase(recovery, application, "verified")
    assert verified.verification is not None
    assert (verified.verification.result, verified.verification.source_records, verified.verification.target_records) == ("match", 2 * COUNT, 2 * COUNT)  # fmt: skip
    assert verified.directive_sequence == sequence
    recovery.direct("exit")
    assert application.wait() == 0
    phases = list(dict.fromkeys(r.phase for r in reports(recovery)))
    assert phases == ["starting", "lanes", "drained", "verifying", "verified", "exiting"]
    assert [r.content for r in cluster.read(recovery.target, 2)] == [
        r.content for r in cluster.read(recovery.source, 2)
    ]


@pytest.mark.wide(
    "tests/faults/test_topics_changed.py::test_row_15_records_deleted_past_the_position_fail_with_the_exact_range"
)
def test_a_lane_that_cannot_go_on_ends_the_attempt_with_its_code(
    recovery: Recovery, cluster: Cluster, start: Callable[..., Application], tmp_path: Path
) -> None:
    cluster.delete_records(recovery.source, 1, 7)
    application = start("--spec", write_spec(tmp_path, recovery.slowed(2_000.0)))
    failed = await_phase(recovery, application, "failed")
    assert (failed.error_code, failed.error_message) == (
        "data_lost",
        f"Offsets [0, 7) of {recovery.source} partition 1 were deleted from the log start.",
    )
    assert application.wait() == 1
    assert_exact(recovery.ledger(), recovery.spec, whole=False)


def test_lanes_that_follow_need_a_slot_each(
    cluster: Cluster, start: Callable[..., Application], tmp_path: Path
) -> None:
    source, target = cluster.topic("in", 3), cluster.topic("out", 3)
    ranges = [[PartitionRange(partition, 0, None)] for partition in range(3)]
    recovery = Recovery(cluster, source, target, ranges=ranges, partitions=3)
    application = start("--spec", write_spec(tmp_path, recovery.spec))
    failed = await_phase(recovery, application, "failed")
    assert (failed.error_code, failed.error_message) == (
        "slots_missing",
        "3 lanes follow the live head and all have to run at once, and local[2,4] has 2 task slots.",
    )
    assert application.wait() == 1


def test_a_newer_attempt_or_a_signal_ends_a_driver(
    recovery: Recovery, start: Callable[..., Application], tmp_path: Path
) -> None:
    slow = recovery.slowed(100.0)
    first = start("--spec", write_spec(tmp_path, slow))
    await_phase(recovery, first, "lanes")
    recovery.direct("run", attempt=2)
    assert first.wait() == 3
    again = replace(slow, attempt=2, directive=replace(slow.directive, attempt=2, sequence=9))
    second = start("--spec", write_spec(tmp_path, again))
    recovery.await_heartbeat(lambda h: h.attempt == 2 and h.state == "copying", deadline_s=START_S)
    second.send(signal.SIGTERM)
    assert second.wait(10.0) == 143


@pytest.mark.wide("tests/faults/test_orphans.py::test_row_32_an_application_without_daemon_and_broker_ends_itself")
def test_a_spare_driver_waits_with_a_warm_session_and_ends_with_its_parent(
    recovery: Recovery, start: Callable[..., Application], tmp_path: Path
) -> None:
    parent = subprocess.Popen(["sleep", "600"])
    try:
        used, unused = tmp_path / "used", tmp_path / "unused"
        for folder in (used, unused):
            folder.mkdir()
        applications = [start("--spare", str(f), "--parent", str(parent.pid)) for f in (used, unused)]
        give_up_s = time.monotonic() + START_S
        while not all((f / "ready").exists() for f in (used, unused)):
            assert time.monotonic() < give_up_s, applications[0].log()
            time.sleep(0.05)
        at_s = time.monotonic()
        write_spec(used, recovery.spec)
        recovery.await_heartbeat(lambda h: any(p.position > 0 for p in h.positions))
        print(f"first chunk after {time.monotonic() - at_s:.2f} s")
    finally:
        parent.kill()
        parent.wait()
    assert applications[1].wait() == 4
    await_phase(recovery, applications[0], "drained")  # in use, so it does not depend on its parent any more
    recovery.direct("exit")
    assert applications[0].wait() == 0
