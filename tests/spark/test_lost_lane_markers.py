"""Chunks that a real broker calls committed, and whose commit markers are not there: the lane itself, or the next
attempt, makes the target and the receipts say the same, each record once and in order.

The broker loses a marker here by having it cut off its log while it is down. That takes a while, so recoveries lose
theirs together; each test then goes on with its own.
"""

import asyncio
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Producer

from recoveryd.adapters.kafka.lane_commits import LaneCommits
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.recovery.effects import ReadLedger
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import JobSpec, PartitionRange, Receipt, encode, transactional_id
from recoveryd_jobs.errors import Redo
from recoveryd_jobs.lane.chunk import Committer
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.lane.loop import LaneLoop
from recoveryd_sandbox.broker import Broker
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows
from tests.builders.lost_markers import forget_markers
from tests.builders.records import make_ledger_question, make_plan
from tests.chosen import chosen
from tests.e2e.log_reader import offsets
from tests.e2e.transactions import await_ended
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.faults]

COUNT = 600
CHUNK = 200
OTHERS = 50_000  # receipts of other recoveries; as many as a producer's queue takes


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("markers")) as started:
        yield started


Case = tuple[str, str]  # how records find their partition, and which markers are lost

CASES: list[Case] = [
    ("same", "one of the target"),
    ("key_hash", "one of the target"),
    ("key_hash", "the ledger's"),
    ("key_hash", "all"),
]
_WIDE = pytest.mark.wide("tests/spark/test_lost_lane_markers.py::test_the_next_attempt_goes_on_exactly")
lost_markers = pytest.mark.parametrize(
    ("mapping", "lost"), [pytest.param(*case, marks=_WIDE if case in {CASES[0], CASES[2]} else ()) for case in CASES]
)


def make_recovery(broker: Broker, mapping: str) -> Recovery:
    """Two target partitions, three chunks."""
    own = Cluster(broker.bootstrap, f"t{uuid.uuid4().hex[:8]}-")
    source, target = own.topic("in", 2), own.topic("out", 2)
    own.fill(source, [*rows(COUNT // 2, 0), *rows(COUNT // 2, 1)])
    ranges = [PartitionRange(0, 0, COUNT // 2), PartitionRange(1, 0, COUNT // 2)]
    return Recovery(
        own,
        source,
        target,
        ranges=[ranges],
        partitions=2,
        chunk=Recovery.chunk_limits(max_records=CHUNK),
        target_more={"mapping": mapping, "exclusive": False},
    )


@dataclass(frozen=True, slots=True)
class Half:
    """An attempt that ended after its second chunk, of which the broker lost markers then."""

    recovery: Recovery
    ledger: list[Receipt]  # this and the positions as they were before
    heard: Mapping[int, int]
    lost: list[tuple[str, int]]

    def next_attempt(self) -> JobSpec:
        """It begins behind what was copied."""
        again = self.recovery.attempt(2)
        ranges = tuple(replace(r, journaled=self.heard[r.partition]) for r in again.lanes[0].partitions)
        return replace(again, lanes=(replace(again.lanes[0], partitions=ranges),))


@pytest.fixture(scope="module")
def halves(request: pytest.FixtureRequest, own_broker: Broker) -> Mapping[str, Half]:
    """One for each chosen test that wants a half, by its id."""
    made: dict[str, Half] = {}
    for test, params in chosen(request, "half").items():
        recovery = make_recovery(own_broker, params["mapping"])
        copy_half(recovery)
        heard = {p.partition: p.position for p in recovery.heartbeats()[-1].positions}
        made[test] = Half(recovery, recovery.ledger(), heard, places_of(recovery, params["lost"]))
    forget_markers(own_broker, *(place for each in made.values() for place in each.lost))
    return made


@pytest.fixture
def half(request: pytest.FixtureRequest, halves: Mapping[str, Half], mapping: str, lost: str) -> Half:
    """The test's own, of the case that its parameters name."""
    return halves[request.node.nodeid]


class LanesThatLose:
    """A lane for each of the cases, all at work at the same time. Once every one of them has come to where it loses its
    markers, all lose them and go on.
    """

    def __init__(self, broker: Broker, cases: Iterable[Case]) -> None:
        self._broker = broker
        self.recoveries = {case: make_recovery(broker, case[0]) for case in cases}
        self._all_there = threading.Barrier(len(self.recoveries), self._forget, patient_s(60))
        self.came: Counter[str] = Counter()  # by recovery, how often its lane came there
        self.ended: dict[Case, LaneOutcome] = {}

    def run(self) -> None:
        lanes = {case: LaneThread(recovery.spec) for case, recovery in self.recoveries.items()}
        self.ended = {case: lane.outcome() for case, lane in lanes.items()}

    def lose(self, recovery_id: str) -> None:
        """Called by the lane, which has committed everything."""
        settled(next(recovery for recovery in self.recoveries.values() if recovery.id == recovery_id))
        self._all_there.wait()

    def _forget(self) -> None:
        lost = [place for (_, lost), recovery in self.recoveries.items() for place in places_of(recovery, lost)]
        forget_markers(self._broker, *lost)


def cases_for(request: pytest.FixtureRequest, fixture: str) -> list[Case]:
    return [(params["mapping"], params["lost"]) for params in chosen(request, fixture).values()]


def waiting(recovery: Recovery) -> dict[tuple[str, int], int]:
    """By place, how many offsets readers cannot pass."""
    home = recovery.spec.receipts
    assert home is not None
    places = [(recovery.target, 0), (recovery.target, 1), (recovery.receipts, home.partition)]
    bootstrap, topics = recovery.cluster.client["bootstrap.servers"], {topic for topic, _ in places}
    stable = {topic: offsets(bootstrap, topic, end=True, committed=True) for topic in topics}
    high = {topic: offsets(bootstrap, topic, end=True) for topic in topics}
    return {(topic, partition): high[topic][partition] - stable[topic][partition] for topic, partition in places}


def settled(recovery: Recovery) -> None:
    """Markers come a moment after the commit is acknowledged, and the coordinator's note of that after them."""
    give_up_s = time.monotonic() + patient_s(10)
    while any(waiting(recovery).values()):
        assert time.monotonic() < give_up_s, "the markers do not come"
        time.sleep(0.05)
    await_ended(recovery.cluster.client["bootstrap.servers"], transactional_id("test", recovery.id, 0))


def copy_half(recovery: Recovery) -> None:
    """The first two chunks."""
    capped = replace(recovery.spec.lanes[0], max_records=2 * CHUNK)
    assert run_lane(replace(recovery.spec, lanes=(capped,)), capped) == LaneOutcome(0, "capped")
    settled(recovery)


def places_of(recovery: Recovery, lost: str) -> list[tuple[str, int]]:
    home = recovery.spec.receipts
    assert home is not None
    written = sorted({run.partition for receipt in recovery.ledger() for run in receipt.targets})
    of_target, of_ledger = [(recovery.target, p) for p in written], (recovery.receipts, home.partition)
    return {
        "one of the target": of_target[:1],
        "the ledger's": [of_ledger],
        "all": [*of_target, of_ledger],
    }[lost]


def assert_all_there_once(recovery: Recovery) -> None:
    copied = recovery.cluster.read(recovery.target, 2)
    wanted = recovery.cluster.read(recovery.source, 2)
    assert sorted(r.content for r in copied) == sorted(r.content for r in wanted)  # type: ignore[type-var]
    for source in (0, 1):
        for partition in (0, 1):
            values = [r.value or b"" for r in copied if r.partition == partition]
            ours = [int(v.split(b"-")[1]) for v in values if v.startswith(f"{source}-".encode())]
            assert ours == sorted(ours), "in order"
    assert_exact(recovery.ledger(), recovery.spec)
    claimed = {
        (run.partition, offset)
        for receipt in recovery.ledger()
        for run in receipt.targets
        for first, count in run.runs
        for offset in range(first, first + count)
    }
    assert claimed == {(r.partition, r.offset) for r in copied}, "receipts say where the records are"
    assert not any(waiting(recovery).values()), "no reader waits"


@lost_markers
def test_the_next_attempt_goes_on_exactly(half: Half) -> None:
    recovery, again = half.recovery, half.next_attempt()
    assert {place for place, count in waiting(recovery).items() if count} == set(half.lost)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery)


@pytest.mark.parametrize(("mapping", "lost"), [("same", "all")])
def test_a_task_that_spark_starts_again_is_no_other_attempt_and_looks_too(half: Half) -> None:
    recovery = half.recovery
    assert run_lane(recovery.spec, recovery.spec.lanes[0], again=True) == LaneOutcome(0, "done")
    assert_all_there_once(recovery)


@lost_markers
def test_the_next_attempt_brings_back_what_the_abort_of_the_one_before_took(half: Half) -> None:
    """The dead attempt had begun its third chunk, up to a receipt."""
    recovery, again = half.recovery, half.next_attempt()
    _die_in_the_next_chunk(recovery, half.ledger[-1])
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery)


@pytest.fixture(scope="module")
def lost_at_the_end(request: pytest.FixtureRequest, own_broker: Broker) -> LanesThatLose:
    """The markers are lost after the last commit, before the lane looks for them."""
    lanes, look = LanesThatLose(own_broker, cases_for(request, "lost_at_the_end")), LaneLoop._await_markers

    def look_after_a_loss(loop: LaneLoop) -> None:
        lanes.came[loop._spec.recovery] += 1
        if lanes.came[loop._spec.recovery] == 1:
            lanes.lose(loop._spec.recovery)
        look(loop)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LaneLoop, "_await_markers", look_after_a_loss)
        lanes.run()
    return lanes


@lost_markers
def test_a_lane_at_its_end_does_not_leave_readers_waiting(
    lost_at_the_end: LanesThatLose, mapping: str, lost: str
) -> None:
    recovery = lost_at_the_end.recoveries[mapping, lost]
    assert lost_at_the_end.ended[mapping, lost] == LaneOutcome(0, "done")
    assert lost_at_the_end.came[recovery.id] > 0
    assert_all_there_once(recovery)


@pytest.fixture(scope="module")
def lost_before_an_abort(request: pytest.FixtureRequest, own_broker: Broker) -> LanesThatLose:
    """The markers of the first chunk are lost, and the lane aborts the second one."""
    lanes, commit = LanesThatLose(own_broker, cases_for(request, "lost_before_an_abort")), Committer.commit

    def lose_then_give_up(committer: Committer, *args: Any) -> Any:
        recovery = committer._spec.recovery
        lanes.came[recovery] += 1
        if lanes.came[recovery] == 2:
            committer._target.flush(time.monotonic() + patient_s(30))
            raise Redo("a cluster does not answer")
        made = commit(committer, *args)
        if lanes.came[recovery] == 1:
            lanes.lose(recovery)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Committer, "commit", lose_then_give_up)
        lanes.run()
    return lanes


@lost_markers
def test_a_lane_that_aborts_a_chunk_itself_brings_back_the_one_before(
    lost_before_an_abort: LanesThatLose, mapping: str, lost: str
) -> None:
    recovery = lost_before_an_abort.recoveries[mapping, lost]
    assert lost_before_an_abort.ended[mapping, lost] == LaneOutcome(0, "done")
    assert lost_before_an_abort.came[recovery.id] > 2
    assert_all_there_once(recovery)


def daemon_of(half: Half) -> tuple[KafkaLedger, ReadLedger]:
    """And what it is asked once the application is lost."""
    recovery, again = half.recovery, half.next_attempt()
    home = recovery.spec.receipts
    assert home is not None
    topics = [(t.topic, t.topic_id) for t in (recovery.spec.source, recovery.spec.target)]
    plan = make_plan((0, 0, COUNT // 2), (1, 0, COUNT // 2), source=topics[0], target=topics[1])
    question = replace(
        make_ledger_question(replace(plan, lanes=((0, 1),), receipts=home), recovery.id, fence=True),
        positions={r.partition: r.journaled for r in again.lanes[0].partitions},
    )
    client = recovery.cluster.client
    accesses = {"main": ClientAccess(client["bootstrap.servers"])}
    return KafkaLedger({"main": client}, recovery.receipts, "test", accesses=accesses), question


@lost_markers
async def test_a_daemon_that_fences_a_lost_application_shows_what_it_had_committed(half: Half) -> None:
    """No lane comes: the recovery is stopped."""
    recovery, again = half.recovery, half.next_attempt()
    ledger, question = daemon_of(half)
    async with asyncio.timeout(patient_s(120)):
        found = await ledger.read(question)
    assert (found.problems, sum(p.copied for p in found.partitions)) == ((), 2 * CHUNK)
    settled(recovery)
    assert recovery.ledger() == half.ledger
    assert len(recovery.cluster.read(recovery.target, 2)) == 2 * CHUNK
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery)


@pytest.mark.parametrize(("mapping", "lost"), [("key_hash", "one of the target")])
async def test_a_daemon_that_looks_through_many_receipts_after_it_fenced_tells_that_it_gets_on(
    half: Half, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_receipts_of_others(half.recovery)
    told, told_by_look = list[float](), list[int]()
    write_missing = LaneCommits.write_missing

    def write_then_note(commits: LaneCommits, transaction_timeout_ms: int) -> None:
        write_missing(commits, transaction_timeout_ms)
        told_by_look.append(len(told))

    monkeypatch.setattr("recoveryd.adapters.kafka.ledger._TELL_S", 0.02)
    monkeypatch.setattr(LaneCommits, "write_missing", write_then_note)
    ledger, question = daemon_of(half)
    async with asyncio.timeout(patient_s(120)):
        found = await ledger.read(question, lambda: told.append(time.monotonic()))
    assert (found.problems, sum(p.copied for p in found.partitions)) == ((), 2 * CHUNK)
    assert told_by_look[0] > 0
    settled(half.recovery)


def _put_receipts_of_others(recovery: Recovery) -> None:
    home = recovery.spec.receipts
    assert home is not None
    client = Producer({**recovery.cluster.client, "linger.ms": 20})
    for at in range(OTHERS):
        client.produce(recovery.receipts, b"{}", f"test/other/0/{at}".encode(), home.partition)
    assert client.flush(patient_s(60)) == 0


def _die_in_the_next_chunk(recovery: Recovery, last: Receipt) -> None:
    """As the lane would: records everywhere and a receipt are written, then nothing more comes."""
    home = recovery.spec.receipts
    assert home is not None
    client = Producer({**recovery.cluster.client, "transactional.id": transactional_id("test", recovery.id, 0)})
    client.init_transactions(patient_s(30))
    client.begin_transaction()
    for partition in (0, 1):
        client.produce(recovery.target, b"dead", b"dead", partition)
    dead = replace(last, start=last.stop, stop=last.stop + last.copied, chunk=last.chunk + 1, targets=())
    client.produce(recovery.receipts, encode(dead), dead.key.encode(), home.partition)
    assert client.flush(patient_s(30)) == 0
