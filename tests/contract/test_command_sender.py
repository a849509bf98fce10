"""Commands that the daemon sends itself lie on the control topic like those of anybody else."""

import pytest

from recoveryd.client.heeding import DRAINING, HoldAck
from recoveryd.client.telling import Teller
from recoveryd.errors import ClusterProblem, FormProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.effects import SendCommand
from tests.builders.core import CODEC
from tests.contract.harness import Harness, KafkaHarness
from tests.patience import patient_s

SENT_MS = 1_790_000_000_000
STOP = SendCommand("s1", "stop", "r1", {"reason": "it is time"}, "s1:1", "//ops/alice", SENT_MS)


async def test_a_sent_command_is_read_as_the_command_it_says(harness: Harness) -> None:
    sender = harness.commands()
    await sender.send(STOP)
    await sender.close()
    (record,) = harness.read(harness.names.control)
    command = CODEC.decode(record.key, record.value, record.headers, record.timestamp_ms, 0)
    assert isinstance(command, StopCommand)
    meta = command.meta
    assert (meta.id, meta.source, meta.subject, meta.reason) == ("s1:1", "//ops/alice", "r1", "it is time")
    assert (meta.time_ms, record.key) == (SENT_MS, b"r1")


async def test_it_lies_where_the_daemon_reads_also_on_a_topic_that_got_more_partitions(harness: Harness) -> None:
    harness.widen(harness.names.control, 8)
    sender = harness.commands()
    await sender.send(STOP)
    await sender.close()
    assert len(harness.read(harness.names.control)) == 1


@pytest.mark.broker
def test_so_does_what_a_consumer_says_about_a_hold(kafka: KafkaHarness) -> None:
    kafka.widen(kafka.names.control, 8)
    teller, told = Teller(kafka.properties, kafka.names.control, "app", "app"), list[HoldAck]()
    teller.tell(HoldAck("h1", "m", DRAINING), told.append)
    teller.flush(patient_s(30))
    assert [record.key for record in kafka.read(kafka.names.control)] == [b"h1"]
    assert [ack.hold for ack in told] == ["h1"]


async def test_sent_twice_it_is_the_same_command(harness: Harness) -> None:
    for _ in range(2):
        sender = harness.commands()
        await sender.send(STOP)
        await sender.close()
    first, second = harness.read(harness.names.control)
    assert (first.key, first.value, first.headers) == (second.key, second.value, second.headers)


async def test_what_the_daemon_would_refuse_by_its_form_is_not_written(harness: Harness) -> None:
    sender = harness.commands()
    with pytest.raises(FormProblem) as refused:
        await sender.send(SendCommand("s1", "stop", "r1", {}, "s1:2", "//ops/alice", SENT_MS))
    await sender.close()
    assert (refused.value.code, refused.value.retriable) == (Code.MISSING_FIELD, False)
    assert harness.read(harness.names.control) == []


async def test_without_a_control_topic_it_can_be_tried_again(harness: Harness) -> None:
    sender = harness.commands()
    harness.delete(harness.names.control)
    with pytest.raises(ClusterProblem) as problem:
        await sender.send(STOP)
    assert problem.value.code is Code.OWN_TOPIC_MISSING
    harness.create(harness.names.control)
    await sender.send(STOP)
    await sender.close()
    assert len(harness.read(harness.names.control)) == 1
