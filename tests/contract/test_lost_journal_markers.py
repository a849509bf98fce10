"""Journal transactions that a real broker calls committed, and whose commit markers are not there: who leads next shows
them to readers, each once and in order.

The broker loses a marker here by having it cut off its log while it is down. That takes a while, so journals that only
have to lose what was committed lose it together.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.transaction import EndTxnRequest_v0
from confluent_kafka import Producer

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.adapters.kafka.offsets import LATEST, read_offsets
from recoveryd.adapters.kafka.own_topics import write_probe
from recoveryd.adapters.kafka.raw_coordinator import Codes, TransactionCoordinator
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.decision import Notice
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import JournalBatch
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_sandbox.broker import Broker
from tests.builders.lost_markers import forget_markers
from tests.contract.harness import KafkaHarness
from tests.contract.journals import commit, is_retriable, opened
from tests.e2e.transactions import await_ended
from tests.patience import patient_s, until_it_works

pytestmark = [pytest.mark.broker, pytest.mark.faults]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("markers")) as started:
        yield started


@pytest.fixture
def own(own_broker: Broker, unique: str) -> KafkaHarness:
    return KafkaHarness(own_broker.bootstrap, unique)


def batch(number: int, *, leader: bool = False) -> JournalBatch:
    return JournalBatch(notices=[Notice("n", "r1", {"n": number})], daemon=DaemonRecord(number) if leader else None)


def numbers(own: KafkaHarness, *, is_settled: bool = True) -> list[int]:
    return [json.loads(record.value or b"")["data"]["n"] for record in own.read(own.names.events, settled=is_settled)]


def epochs(own: KafkaHarness) -> list[int]:
    return [json.loads(record.value or b"")["applied_control_offset"] for record in own.read(own.names.status)]


def waiting(own: KafkaHarness) -> dict[str, int]:
    """By topic, how many offsets readers cannot pass yet."""
    found, admin = {}, make_admin(own.properties)  # one that knew the partitions before a restart asks by old epochs
    for topic in (own.names.events, own.names.status):
        stable, end = [read_offsets(admin, [(topic, 0)], LATEST, patient_s(10), committed=c)[0] for c in (True, False)]
        found[topic] = end - stable
    return found


async def settled(own: KafkaHarness) -> None:
    """Markers come a moment after the commit is acknowledged, and the coordinator's note of that after them."""
    give_up_s = time.monotonic() + patient_s(10)
    while any(waiting(own).values()):
        assert time.monotonic() < give_up_s, "the markers do not come"
        await asyncio.sleep(0.05)
    await asyncio.to_thread(await_ended, own.properties["bootstrap.servers"], f"recoveryd.{own.scope}.journal")


@dataclass(frozen=True, slots=True)
class Lost:
    """A journal of which two transactions were acknowledged, and the markers of the second one are lost."""

    own: KafkaHarness
    old: KafkaJournal  # it wrote them
    topics: list[str]  # where a marker is lost


@pytest.fixture(scope="module")
def journals(own_broker: Broker) -> Iterator[Mapping[str, Lost]]:
    """By what comes next."""

    async def prepare() -> dict[str, Lost]:
        return {
            "some markers": await acknowledged(own_broker, "events"),
            "all markers": await acknowledged(own_broker, "events", "status"),
            "a visitor": await acknowledged(own_broker, "events", leader_twice=False),
            "an abort": await acknowledged(own_broker, "events", leader_twice=False),
            "a probe": await acknowledged(own_broker, "events", "status"),
            "a leader that is interrupted": await acknowledged(own_broker, "events", "status"),
        }

    made = asyncio.run(prepare())
    forget_markers(own_broker, *((topic, 0) for each in made.values() for topic in each.topics))
    yield made
    made.clear()  # clients of a broker that is gone would go on connecting, and log that


async def acknowledged(broker: Broker, *lost: str, leader_twice: bool = True) -> Lost:
    """Before the markers are lost."""
    own = KafkaHarness(broker.bootstrap, f"t{uuid.uuid4().hex[:8]}-")
    old = own.journal()
    await opened(old)
    await commit(old, batch(1, leader=True))
    await commit(old, batch(2, leader=leader_twice))
    await settled(own)
    return Lost(own, old, [{"events": own.names.events, "status": own.names.status}[name] for name in lost])


async def state_of_journal(own: KafkaHarness) -> str:
    """As soon as its coordinator has loaded it. A broker that came back a moment ago also refuses connections."""
    access = ClientAccess(own.properties["bootstrap.servers"])

    async def ask_once() -> str:
        async with connected(access, "test", "ask for transactions", patient_s(10)) as client:
            found = [state for name, _producer, state in await client.transactions() if own.scope in name]
        if not found:
            raise ClusterProblem("The journal's transactions are not loaded yet.")
        return found[0]

    return await until_it_works(ask_once, is_retriable)


@pytest.mark.parametrize("lost", ["some markers", "all markers"])
async def test_a_new_leader_shows_what_was_acknowledged_to_the_one_before(
    journals: Mapping[str, Lost], lost: str
) -> None:
    own, old, topics = journals[lost].own, journals[lost].old, journals[lost].topics
    assert all(waiting(own)[topic] > 0 for topic in topics)
    assert await state_of_journal(own) == "CompleteCommit"
    assert numbers(own, is_settled=False) == [1]

    new = own.journal()
    await opened(new)
    assert numbers(own) == [1, 2], "before it writes anything"
    assert epochs(own) == [1, 2]
    assert waiting(own) == dict.fromkeys(waiting(own), 0)
    await commit(new, batch(3, leader=True))
    assert numbers(own) == [1, 2, 3]
    assert epochs(own) == [1, 2, 3]
    await new.close()
    await old.close()


async def test_a_leader_whose_client_was_lost_with_a_marker_goes_on_in_order(journals: Mapping[str, Lost]) -> None:
    own, journal = journals["a visitor"].own, journals["a visitor"].old
    visitor = own.journal()
    await opened(visitor)  # which shuts the leader out, and shows 2
    assert numbers(own) == [1, 2]
    await commit(journal, batch(3))
    assert numbers(own) == [1, 2, 3]
    await journal.close()
    await visitor.close()


async def test_what_the_abort_of_a_dead_leader_took_away_is_written_again(
    journals: Mapping[str, Lost], caplog: pytest.LogCaptureFixture
) -> None:
    own, old = journals["an abort"].own, journals["an abort"].old
    _die_in_the_next_transaction(own, *_stamp_behind(own))

    new = own.journal()
    await opened(new)  # its fencing aborts that transaction, and with it the records of the one before
    assert "an abort took away 1 records" in caplog.text
    assert numbers(own) == [1, 2]
    await commit(new, batch(3, leader=True))
    assert numbers(own) == [1, 2, 3]
    await new.close()
    await old.close()


async def test_what_was_begun_and_never_committed_stays_unseen(own_broker: Broker, own: KafkaHarness) -> None:
    old = own.journal()
    await opened(old)
    await commit(old, batch(1, leader=True))
    await settled(own)
    _die_in_the_next_transaction(own, *_stamp_behind(own))
    await opened(middle := own.journal())
    await settled(own)
    forget_markers(own_broker, (own.names.events, 0))  # that of the abort
    new = own.journal()
    await opened(new)
    await commit(new, batch(2, leader=True))
    assert numbers(own) == [1, 2]
    for journal in (old, middle, new):
        await journal.close()


async def test_what_others_wrote_behind_it_hides_nothing_of_what_waits(journals: Mapping[str, Lost]) -> None:
    own, old, topics = journals["a probe"].own, journals["a probe"].old, journals["a probe"].topics
    denied = await asyncio.to_thread(write_probe, own.properties, f"{own.scope}.probe", topics)  # as `doctor` does
    assert denied == dict.fromkeys(topics)
    new = own.journal()
    await opened(new)
    assert numbers(own) == epochs(own) == [1, 2]
    await settled(own)
    await new.close()
    await old.close()


async def test_who_opens_the_journal_while_a_commit_is_under_way_finds_word_of_what_landed(
    journals: Mapping[str, Lost], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, old = journals["a leader that is interrupted"].own, journals["a leader that is interrupted"].old
    ask, ended = TransactionCoordinator.ask, 0

    async def lose_the_end(to: TransactionCoordinator, form: RequestStruct, codes: Codes, give_up_s: float) -> Any:
        nonlocal ended
        if isinstance(form, EndTxnRequest_v0):
            ended += 1
            raise KafkaConnectionError("gone")
        return await ask(to, form, codes, give_up_s)

    with monkeypatch.context() as patched:
        patched.setattr(TransactionCoordinator, "ask", lose_the_end)
        interrupted = own.journal()
        give_up_s = time.monotonic() + patient_s(60)
        while not ended:
            assert time.monotonic() < give_up_s, "it was never asked to end"
            with pytest.raises(ClusterProblem):
                await interrupted.open()
    new = own.journal()
    await opened(new)
    assert "an abort took away 2 records" in caplog.text
    assert numbers(own) == epochs(own) == [1, 2]
    assert waiting(own) == dict.fromkeys(waiting(own), 0)
    for journal in (old, interrupted, new):
        await journal.close()


def _stamp_behind(own: KafkaHarness) -> tuple[str, int]:
    """Series and number of the transaction that would come next."""
    [*_before, last] = own.read(own.names.status)
    series, number, _attempt, _count = dict(last.headers)["recoveryd-transaction"].decode().split(".")  # type: ignore[union-attr]
    return series, int(number) + 2


def _die_in_the_next_transaction(own: KafkaHarness, series: str, number: int) -> None:
    """As the leader would: one of two records is written, then nothing more comes."""
    client = Producer({**own.properties, "transactional.id": f"recoveryd.{own.scope}.journal"})
    client.init_transactions(patient_s(30))
    client.begin_transaction()
    value = json.dumps({"data": {"n": 99}}).encode()
    client.produce(own.names.events, value, headers=[("recoveryd-transaction", f"{series}.{number}.1.2".encode())])
    assert client.flush(patient_s(10)) == 0
