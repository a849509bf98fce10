"""Replays on a standalone Spark cluster whose machines have no checkout: the code travels, the environment does not,
and a lost machine loses no record.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.history import Draft, create_topics, produce
from tests.e2e.case import Case
from tests.e2e.clients import writer
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, fill_plain
from tests.e2e.processes import Process, kill, wait_for
from tests.e2e.spark_cluster import Machine, SparkCluster
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

PARTITIONS = 8
RECORDS_EACH = 3_000
# This would kill each lane at its first chunk if the daemon's environment reached it.
ENVIRONMENT = {"RECOVERYD_FAILPOINT": "lane.after_consume", "RECOVERYD_LOG__LEVEL": "info"}
START_S = 240.0

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=2, cores=2) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(stack: Stack, cluster: SparkCluster) -> Iterator[DaemonProcess]:
    conf = cluster.profile | {
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s"
    }  # a busy machine starts slowly
    few = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "20s"}  # for executors that will never be there
    unfit = {"spark.pyspark.python": "/nowhere/python", "spark.cores.max": "1"}
    profiles: dict[str, Any] = {
        "cluster": {"master": cluster.master, "task_slots": 4, "conf": conf},
        "wide": {"master": cluster.master, "task_slots": 8, "conf": conf},
        "too-wide": {"master": cluster.master, "task_slots": 8, "conf": conf | few},
        "unfit": {"master": cluster.master, "task_slots": 1, "conf": conf | unfit},
    }
    with stack.running(environment=ENVIRONMENT, settings={"profiles": profiles}) as leading:
        yield leading


@pytest.fixture(scope="module")
def wide(stack: Stack) -> str:
    topic = f"{stack.mark}-wide"
    fill_plain(stack.bootstrap, topic, PARTITIONS, RECORDS_EACH)
    return topic


@pytest.fixture
def case(stack: Stack, daemon: DaemonProcess, wide: str) -> Case:
    number = next(_numbers)
    return Case(stack, f"cluster{number}", wide, f"{stack.mark}-cluster-copy{number}")


def lanes_on(machine: Machine) -> list[Process]:
    """Forked Python workers of a machine: those whose parent is a worker server as well."""
    servers = {p.pid for p in machine.processes() if p.is_spark_worker}
    return [p for p in machine.processes() if p.is_spark_worker and p.parent in servers]


def environment(process: Process) -> dict[str, str]:
    raw = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
    return dict(item.split("=", 1) for item in raw.split("\0") if "=" in item)


def test_a_replay_on_machines_without_a_checkout_loses_no_record_with_an_executor_and_a_machine(
    case: Case, cluster: SparkCluster
) -> None:
    case.start(job={"profile": "cluster"})
    case.copying(deadline_s=START_S)
    for machine in cluster.machines:
        workers = wait_for(lambda: lanes_on(machine), 20, machine.log)  # noqa: B023
        for worker in workers:
            seen = environment(worker)
            assert seen["MACHINE"] == machine.name
            assert [name for name in seen if name.startswith(("RECOVERYD_", "E2E_"))] == []
            assert Path(f"/proc/{worker.pid}/cwd").resolve().is_relative_to(machine.folder)
            assert Path(f"/proc/{worker.pid}/exe").resolve() == cluster.python.resolve()
    assert case.attempt() == 1
    lost, kept = cluster.machines
    [executor], lanes = kept.executors(), set(lanes_on(kept))
    kill(executor)
    wait_for(lambda: set(lanes_on(kept)) - lanes, 60, kept.log)  # on another executor
    case.going_on()
    cluster.machines.remove(lost)
    lost.kill()
    try:
        case.finish(240)  # four lanes on the two slots that are left
    finally:
        cluster.add_machine()


def test_a_pinned_range_may_have_more_lanes_than_slots_and_its_records_may_go_by_key(case: Case, stack: Stack) -> None:
    """Sorting by key and comparing keys keep tables on the executors' disks."""
    create_topics(stack.bootstrap, {case.target: 3})
    case.asked = {"mapping": "key_hash"}
    case.start(records_per_s=None, job={"profile": "wide"}, target_create=False, target_mapping="key_hash")
    done = case.judge(240)
    assert done["attempt"] == 1

    producer = writer(stack.bootstrap)
    told = {"source": {"topic": case.source}, "target": {"topic": case.target}, "mapping": "key_hash"}
    wanted: dict[str, list[tuple[str, int]]] = {"records": [], "latest": [("extra", 1)]}
    for compare, differences in wanted.items():
        name = f"{case.recovery}-{compare}"
        stack.control.command("verify", name, {**told, "compare": compare, "job": {"profile": "cluster"}})
        found = stack.completed(name, 240)["verification"]["differences"]
        assert [(d["kind"], d["target_partition"]) for d in found] == differences
        produce(producer, case.target, Draft(1, b"nobody", b"nothing", (), BASE_MS))
        assert producer.flush(60) == 0


@pytest.mark.wide("tests/spark/test_driver.py::test_lanes_that_follow_need_a_slot_each")
def test_lanes_that_follow_are_refused_when_they_cannot_all_run(case: Case) -> None:
    case.start(stop="never", job={"profile": "too-wide"})
    failed = case.failed(240)
    assert failed["error_code"] == "RCV-3040"
    assert "8 lanes follow the live head and all have to run at once" in failed["why"]
    assert re.search("has [0-4] task slots after 20 s", failed["why"])


@pytest.mark.wide("tests/cli/test_setup.py::test_executors_that_cannot_be_started_say_why")
def test_executors_without_the_python_of_the_profile_are_named(case: Case) -> None:
    case.start(job={"profile": "unfit"})
    failed = case.failed(240)
    assert failed["error_code"] == "RCV-3041"
    assert "/nowhere/python; set spark.pyspark.python" in failed["why"]
