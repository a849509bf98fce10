"""The journal while its broker hangs, dies and comes back: every batch lands once, in order."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from recoveryd.adapters.kafka.client import Properties, make_consumer
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.decision import Notice
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import JournalBatch
from recoveryd_sandbox.broker import Broker
from tests.contract.harness import KafkaHarness
from tests.contract.journals import commit, opened

pytestmark = [pytest.mark.broker, pytest.mark.faults]

DEADLINE_S = 400.0
ROUNDS = 60


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for these tests only, since they stop it."""
    with Broker(tmp_path_factory.mktemp("outage")) as started:
        yield started


async def hang(broker: Broker) -> None:
    broker.pause()
    await asyncio.sleep(3.0)
    broker.cont()


async def die_and_return(broker: Broker) -> None:
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)


@pytest.mark.parametrize("fault", [
    pytest.param(hang, marks=pytest.mark.wide(
        "tests/contract/test_journal_session.py::test_a_transaction_that_timed_out_while_the_broker_stood_still_is_written_once"
    )),
    die_and_return,
])  # fmt: skip
async def test_every_batch_lands_once_over_an_outage(
    own_broker: Broker, unique: str, fault: Callable[[Broker], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "recoveryd.adapters.kafka.journal._COMMIT_DEADLINE_S", 1.0
    )  # so that callers see the outage too
    harness = KafkaHarness(own_broker.bootstrap, unique)
    journal = harness.journal()
    await opened(journal)
    outage = None
    async with asyncio.timeout(DEADLINE_S):
        for number in range(ROUNDS):
            if number == ROUNDS // 3:
                outage = asyncio.ensure_future(fault(own_broker))  # type: ignore[arg-type]
            notice = Notice("counted", "r1", {"number": number})
            await commit(journal, JournalBatch(notices=[notice], daemon=DaemonRecord(number)))
        assert outage is not None
        await outage
        folded = await opened(journal)
    await journal.close()

    numbers = [json.loads(record.value or b"")["data"]["number"] for record in harness.read(harness.names.events)]
    assert numbers == list(range(ROUNDS))
    assert folded.daemon.applied_control_offset == ROUNDS - 1


async def test_a_leader_that_cannot_reach_the_broker_while_starting_may_try_again(
    tmp_path: Path, own_broker: Broker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd.adapters.kafka.journal._OPEN_DEADLINE_S", 1.0)
    harness = KafkaHarness(own_broker.bootstrap, unique)
    journal = harness.journal()
    own_broker.pause()
    with pytest.raises(ClusterProblem) as caught:
        await journal.open()
    own_broker.cont()
    assert caught.value.retriable
    async with asyncio.timeout(DEADLINE_S):
        await opened(journal)
        await commit(journal, JournalBatch(daemon=DaemonRecord(1)))
    await journal.close()


async def test_a_reader_that_cannot_be_made_leaves_no_other_one_open(
    own_broker: Broker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Consumer] = []

    def make(properties: Properties) -> Consumer:
        made.append(make_consumer(properties))
        return made[0]

    def fail(_properties: Properties) -> Consumer:
        raise ClusterProblem("A file is away.", retriable=False)

    monkeypatch.setattr("recoveryd.adapters.kafka.journal.make_consumer", make)
    monkeypatch.setattr("recoveryd.adapters.kafka.journal.make_control_consumer", fail)
    journal = KafkaHarness(own_broker.bootstrap, unique).journal()
    with pytest.raises(ClusterProblem, match=r"A file is away\."):
        await opened(journal)
    with pytest.raises(RuntimeError, match="closed"):
        made[0].assignment()
    await journal.close()
