"""A journal whose client was fenced: it goes on unless another daemon left its mark, and each batch is written once."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from recoveryd.adapters.kafka import transactions
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.errors import Fenced
from recoveryd.kernel.decision import Notice
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import JournalBatch
from recoveryd_sandbox.broker import Broker
from tests.contract.harness import KafkaHarness
from tests.contract.journals import commit, opened
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.faults]

FROZEN_S = 6.0
INVALID_STATE = KafkaError(KafkaError.INVALID_TXN_STATE, "invalid state", fatal=True)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for these tests only, since they stop it. It ends transactions soon after their timeout."""
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with Broker(tmp_path_factory.mktemp("session"), overrides=overrides) as started:
        yield started


@pytest.fixture
def own(own_broker: Broker, unique: str) -> KafkaHarness:
    return KafkaHarness(own_broker.bootstrap, unique)


def batch(number: int, *, leader: bool = False) -> JournalBatch:
    return JournalBatch(notices=[Notice("n", "r1", {"n": number})], daemon=DaemonRecord(number) if leader else None)


def numbers(harness: KafkaHarness) -> list[int]:
    return [json.loads(record.value or b"")["data"]["n"] for record in harness.read(harness.names.events)]


async def test_somebody_who_opened_the_journal_and_wrote_nothing_does_not_end_its_leader(own: KafkaHarness) -> None:
    leader, visitor = own.journal(), own.journal()
    await opened(leader)
    await commit(leader, batch(1, leader=True))
    await opened(visitor)
    await commit(leader, batch(2))
    with pytest.raises(Fenced):
        await commit(visitor, batch(3))
    with pytest.raises(Fenced):
        await commit(visitor, batch(4, leader=True))
    await commit(leader, batch(5))
    assert numbers(own) == [1, 2, 5]
    await leader.close()
    await visitor.close()


async def test_a_leader_that_another_one_followed_leaves_without_disturbing_it(
    own: KafkaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = own.journal(), own.journal()
    await opened(old)
    await commit(old, batch(1, leader=True))
    await opened(new)
    await commit(new, batch(2, leader=True))
    for _ in range(2):
        with pytest.raises(Fenced):
            await commit(old, batch(3))
    await commit(new, batch(4))
    assert len([r for r in caplog.records if "lost the journal's client" in r.message]) == 1, "the old one's"
    assert numbers(own) == [1, 2, 4]
    await old.close()
    await new.close()


@pytest.mark.parametrize("has_landed", [True, False])
async def test_a_commit_answered_with_an_invalid_state_is_read_back(
    own: KafkaHarness, monkeypatch: pytest.MonkeyPatch, has_landed: bool
) -> None:
    journal = own.journal()
    await opened(journal)
    await commit(journal, batch(1, leader=True))
    asked = _answer_once(monkeypatch, has_landed=has_landed)
    await commit(journal, batch(2))
    await commit(journal, batch(3))
    assert asked == ["committed" if has_landed else "dropped"]
    assert numbers(own) == [1, 2, 3]
    await journal.close()


class Blind:
    """A client that dropped each of its brokers and looks for none, as librdkafka 2.16 may after a moment in which its
    cluster had none. The last commit landed, or never left it.
    """

    def __init__(self, real: Producer, *, has_landed: bool) -> None:
        self._real, self._lands = real, has_landed

    def commit_transaction(self, _timeout_s: float) -> None:
        if self._lands:
            self._real.commit_transaction(patient_s(60))
        self._lands = False
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def list_topics(self, _topic: str, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, f"no broker within {timeout}"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("has_landed", [True, False])
async def test_a_client_that_lost_sight_of_the_cluster_is_replaced_and_its_transaction_read_back(
    own: KafkaHarness, monkeypatch: pytest.MonkeyPatch, has_landed: bool
) -> None:
    monkeypatch.setattr("recoveryd.adapters.kafka.journal._COMMIT_DEADLINE_S", 1.0)
    journal = own.journal()
    await opened(journal)
    await commit(journal, batch(1, leader=True))
    writer = journal._session._client._writer
    assert writer is not None
    monkeypatch.setattr(writer, "_producer", Blind(writer._producer, has_landed=has_landed))
    await commit(journal, batch(2))
    await commit(journal, batch(3))
    assert numbers(own) == [1, 2, 3]
    await journal.close()


async def test_a_transaction_that_timed_out_while_the_broker_stood_still_is_written_once(
    own_broker: Broker, own: KafkaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd.adapters.kafka.journal._TRANSACTION_TIMEOUT_MS", 3_000)
    monkeypatch.setattr("recoveryd.adapters.kafka.journal._COMMIT_DEADLINE_S", 4.0)
    journal = own.journal()
    await opened(journal)
    await commit(journal, batch(0, leader=True))
    for round_number in range(3):
        first = 1 + round_number * 20
        writing = asyncio.ensure_future(_write(journal, range(first, first + 20)))
        await asyncio.sleep(0.3)
        own_broker.pause()
        await asyncio.sleep(FROZEN_S)  # the length of the fault itself
        own_broker.cont()
        await writing
    assert numbers(own) == list(range(61))
    await journal.close()


async def test_an_open_transaction_of_others_next_to_the_journal_harms_nothing(own: KafkaHarness) -> None:
    journal = own.journal()
    with own.open_transaction(own.names.events):
        await opened(journal)
        await commit(journal, batch(1, leader=True))
    assert numbers(own) == [1]
    await journal.close()


@contextmanager
def left_open_by_a_client(own: KafkaHarness, records: int) -> Iterator[list[int]]:
    """The offsets of records of a transaction that nobody ends meanwhile, as when the broker forgot its marker."""
    client = Producer(
        {**own.properties, "transactional.id": f"{own.scope}-forgotten", "transaction.timeout.ms": 600_000}
    )
    offsets: list[int] = []
    client.init_transactions(patient_s(10))
    client.begin_transaction()
    for _ in range(records):
        client.produce(own.names.events, b"{}", on_delivery=lambda _, message: offsets.append(message.offset()))
    assert client.flush(patient_s(10)) == 0
    yield offsets
    client.abort_transaction(patient_s(10))


async def test_the_open_transaction_of_others_hides_records_and_brings_none_twice(own: KafkaHarness) -> None:
    leader, visitor = own.journal(), own.journal()
    await opened(leader)
    with left_open_by_a_client(own, 1):
        await commit(leader, batch(1, leader=True))
        await opened(visitor)
        await commit(leader, batch(2))
        await opened(leader)
        await commit(leader, batch(3, leader=True))
    assert numbers(own) == [1, 2, 3]
    await leader.close()
    await visitor.close()


async def _write(journal: KafkaJournal, these: range) -> None:
    for number in these:
        await commit(journal, batch(number))


def _answer_once(monkeypatch: pytest.MonkeyPatch, *, has_landed: bool) -> list[str]:
    """Let the broker do or drop the next commit, and answer it late with an invalid state, as a broker did that was
    busy for 40 s.
    """
    made: Callable[..., object] = transactions.TransactionalWriter._commit
    asked: list[str] = []

    def commit_transaction(writer: transactions.TransactionalWriter, token: object, give_up_s: float) -> None:
        if asked:
            made(writer, token, give_up_s)
            return
        asked.append("committed" if has_landed else "dropped")
        producer = writer._producer
        producer.flush(60)
        if has_landed:
            producer.commit_transaction(60)
        writer._unsettled = token
        writer._wait_or_raise(KafkaException(INVALID_STATE), give_up_s, "learn whether it landed")

    monkeypatch.setattr(transactions.TransactionalWriter, "_commit", commit_transaction)
    return asked
