"""Applications: launched once per attempt, heard through the progress topic, obedient to directives, reported when they
end.

The same over lanes in virtual time and over a real Spark.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from recoveryd.adapters.memory import ManualClock, MemoryJobs, MemoryRecord
from recoveryd.adapters.spark.command import SparkProfile
from recoveryd.adapters.spark.runner import SparkJobs
from recoveryd.capabilities import make_job
from recoveryd.errors import LaunchError
from recoveryd.kernel.events import Event
from recoveryd.ports import Jobs
from recoveryd.recovery.events import AttemptExited
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.recovery.model import Plan
from recoveryd_jobs.contract import Directive, DriverHeartbeat, LaneHeartbeat, encode
from tests.builders.records import make_directive, make_launch, make_ledger_question, make_plan
from tests.contract.harness import Harness, KafkaHarness, MemoryHarness

DEADLINE_S = 300.0
SPARK = (pytest.mark.broker, pytest.mark.spark)


class Applications(Protocol):
    jobs: Jobs
    heard: list[Event]

    def turn(self) -> None:
        """Let virtual time pass."""
        ...


class InMemory:
    def __init__(self, harness: MemoryHarness) -> None:
        self.heard: list[Event] = []
        self._clock = ManualClock(harness.now_ms())
        self._jobs = MemoryJobs(
            {"main": harness.broker}, make_job(defaults(harness)), self.heard.append, self._clock.now_ms, 400
        )
        self.jobs: Jobs = self._jobs
        self._clock.each_second(self._jobs.work)
        self._clock.each_second(harness.deliver)

    def turn(self) -> None:
        self._clock.advance(1_000)


class OnSpark:
    def __init__(self, harness: KafkaHarness, folder: Path) -> None:
        self.heard: list[Event] = []
        profile = SparkProfile(conf={"spark.ui.enabled": "false"})
        self.jobs: Jobs = SparkJobs({"default": profile}, make_job(defaults(harness)), folder, self.heard.append)

    def turn(self) -> None:
        """Nothing to do: real time passes by itself."""


@pytest.fixture(params=["memory", pytest.param("spark", marks=SPARK)])
def harness(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    is_memory = request.param == "memory"
    made = MemoryHarness(unique) if is_memory else KafkaHarness(request.getfixturevalue("bootstrap"), unique)
    yield made
    made.close()


@pytest.fixture
def applications(harness: Harness, tmp_path: Path) -> Applications:
    return InMemory(harness) if isinstance(harness, MemoryHarness) else OnSpark(harness, tmp_path)  # type: ignore[arg-type]


def defaults(harness: Harness) -> JobDefaults:
    properties = harness.properties if isinstance(harness, KafkaHarness) else {}
    names = harness.names
    return JobDefaults(harness.scope, {"main": properties}, names.directives, names.progress, names.receipts)


def plan_of(harness: Harness, unique: str, records: int = 1_000) -> Plan:
    """Two partitions with records, to be copied into an empty topic."""
    source, target = unique + "source", unique + "target"
    source_id, target_id = harness.create(source, 2, retention_ms="-1"), harness.create(target, 2, retention_ms="-1")
    for partition in range(2):
        made = [MemoryRecord(b"k%d" % i, b"v" * 50, harness.now_ms()) for i in range(records)]
        harness.write(source, made, partition)
    return make_plan((0, 0, records), (1, 0, records), source=(source, source_id), target=(target, target_id))


def direct(harness: Harness, directive: Directive) -> None:
    record = MemoryRecord(directive.recovery.encode(), encode(directive), harness.now_ms())
    harness.write(harness.names.directives, [record])


async def until(applications: Applications, condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up_s, applications.heard[-3:]
        applications.turn()
        await asyncio.sleep(0.01)


def phases(applications: Applications) -> list[str]:
    """Phases of the driver in the order heard, without repetition."""
    heard = [e.phase for e in applications.heard if isinstance(e, DriverHeartbeat)]
    return list(dict.fromkeys(heard))


@pytest.mark.parametrize("harness", [
    "memory",
    pytest.param("spark", marks=(*SPARK, pytest.mark.wide(
        "tests/spark/test_driver.py::test_an_attempt_copies_verifies_when_told_and_leaves_when_told"
    ))),
], indirect=True)  # fmt: skip
async def test_an_attempt_copies_verifies_and_leaves_as_directives_say(
    harness: Harness, applications: Applications, unique: str
) -> None:
    plan, heard = plan_of(harness, unique), applications.heard
    feed = harness.progress()
    await feed.start(heard.append)
    direct(harness, make_directive(sequence=1))

    await applications.jobs.launch(make_launch(plan))
    await applications.jobs.launch(make_launch(plan))  # a second launch has no effect
    await until(applications, lambda: "drained" in phases(applications))
    ledger = await harness.ledger().read(make_ledger_question(plan))
    direct(harness, make_directive(sequence=2, wanted="verify"))
    await until(applications, lambda: "verified" in phases(applications))
    direct(harness, make_directive(sequence=3, wanted="exit"))
    await until(applications, lambda: any(isinstance(e, AttemptExited) for e in heard))
    await applications.jobs.close()
    await feed.close()

    assert [(p.position, p.copied) for p in ledger.partitions] == [(1_000, 1_000), (1_000, 1_000)]
    assert [len(harness.read(unique + "target", p)) for p in range(2)] == [1_000, 1_000]
    assert [p for p in phases(applications) if p != "verifying"] == [
        "starting",
        "lanes",
        "drained",
        "verified",
        "exiting",
    ]
    [verified] = {e.verification for e in heard if isinstance(e, DriverHeartbeat) and e.phase == "verified"}
    assert verified is not None
    assert (verified.result, verified.source_records, verified.target_records) == ("match", 2_000, 2_000)
    assert {e.lane for e in heard if isinstance(e, LaneHeartbeat)} == {0, 1}
    exits = [(e.recovery, e.attempt, e.exit_code) for e in heard if isinstance(e, AttemptExited)]
    assert exits == [("r1", 1, 0)]


@pytest.mark.parametrize("harness", [
    "memory",
    pytest.param("spark", marks=(*SPARK, pytest.mark.wide(
        "tests/faults/test_jobs_killed.py::test_rows_4_and_5_a_driver_or_lane_killed_at_any_step_loses_and_doubles_nothing"
    ))),
], indirect=True)  # fmt: skip
async def test_a_killed_attempt_is_told_of_and_the_next_one_goes_on_where_its_receipts_end(
    harness: Harness, applications: Applications, unique: str
) -> None:
    plan, heard = plan_of(harness, unique), applications.heard
    feed = harness.progress()
    await feed.start(heard.append)
    direct(harness, make_directive(sequence=1))

    await applications.jobs.launch(make_launch(plan))
    await until(applications, lambda: any(isinstance(e, LaneHeartbeat) for e in heard))
    await applications.jobs.kill("r1", 1)
    await until(applications, lambda: any(isinstance(e, AttemptExited) for e in heard))
    direct(harness, make_directive(sequence=2, attempt=2))
    heard.clear()
    await applications.jobs.launch(make_launch(plan, attempt=2))
    await until(applications, lambda: "drained" in phases(applications))
    await applications.jobs.kill("r1", 2)
    await until(applications, lambda: any(isinstance(e, AttemptExited) for e in heard))
    await applications.jobs.close()
    await feed.close()

    ledger = await harness.ledger().read(make_ledger_question(plan))
    assert ([p.copied for p in ledger.partitions], ledger.problems) == ([1_000, 1_000], ())
    assert [len(harness.read(unique + "target", p)) for p in range(2)] == [1_000, 1_000]


async def test_killing_what_nobody_knows_is_fine(applications: Applications) -> None:
    await applications.jobs.kill("never", 7)
    await applications.jobs.close()
    assert applications.heard == []


async def test_a_cluster_missing_from_the_config_cannot_be_launched_on(
    harness: Harness, applications: Applications
) -> None:
    plan = make_plan((0, 0, 1))
    lost = Plan(**{f: getattr(plan, f) for f in plan.__dataclass_fields__} | {"target": _on_the_moon(plan)})
    with pytest.raises(LaunchError) as caught:
        await applications.jobs.launch(make_launch(lost))
    await applications.jobs.close()
    assert not caught.value.retriable
    assert "moon" in caught.value.message


def _on_the_moon(plan: Plan) -> object:
    return type(plan.target)("moon", plan.target.topic, plan.target.topic_id, 1)
