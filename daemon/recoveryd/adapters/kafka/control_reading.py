"""Reads a range of the control topic past what cannot be unpacked.

Anybody may write to it, and a batch that is small on the topic may be huge once unpacked: the client library refuses
it, stays in front of it and says where it begins. Its check sum was right, so no other replica has a better one. It is
shown as one record at its first offset, which says why nothing else is known of it. Blocking.
"""

import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from recoveryd.adapters.kafka.client import Properties, make_consumer
from recoveryd.adapters.kafka.reading import NotUnpacked, control_record, next_messages, read_to, unreadable
from recoveryd.errors import ClusterProblem
from recoveryd.ports import ControlRecord

# Of all that read the control topic, Faust's consumer too: they must show the same records, and pass over the same.
CONTROL_ISOLATION: Final = "read_uncommitted"  # Faust's consumer has no other
UNPACKED_MOST: Final = 100_000_000  # bytes of a batch
_POLL_S = 0.05


def make_control_consumer(properties: Properties) -> Consumer:
    """Other consumers unpack far more: what they read may hold large batches for good reasons."""
    return make_consumer(properties, isolation_level=CONTROL_ISOLATION, receive_message_max_bytes=UNPACKED_MOST)


def read_control(consumer: Consumer, topic: str, start: int, stop: int, patience_s: float) -> Iterator[ControlRecord]:
    """Records of its one partition with offsets in [start, stop). Raises `ClusterProblem`, as `read_to` does."""
    while start < stop:
        try:
            for message in read_to(consumer, topic, 0, start, stop, patience_s):
                record = control_record(message)
                start = record.offset + 1
                yield record
        except NotUnpacked as found:
            if found.offset >= start:
                yield ControlRecord(0, found.offset, 0, None, None, damage=found.why)
            start = _behind(consumer, topic, found.offset, max(start, found.offset + 1), stop, patience_s)
        else:
            return


def _behind(consumer: Consumer, topic: str, first: int, start: int, stop: int, patience_s: float) -> int:
    """The first offset from `start` on that is not of the batch which begins at `first`; at most `stop`. Nobody says
    how many records such a batch has, so it is looked for: in steps that double, and then between the last two.
    """
    inside, outside, step = start - 1, stop, 1
    while inside + step < stop:
        if not _is_in_batch(consumer, topic, first, inside + step, patience_s):
            outside = inside + step
            break
        inside, step = inside + step, step * 2
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if _is_in_batch(consumer, topic, first, middle, patience_s):
            inside = middle
        else:
            outside = middle
    return outside


def _is_in_batch(consumer: Consumer, topic: str, first: int, offset: int, patience_s: float) -> bool:
    give_up_s = time.monotonic() + patience_s
    consumer.assign([TopicPartition(topic, 0, offset)])
    while time.monotonic() < give_up_s:
        for message in next_messages(consumer, _POLL_S):
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                return False
            problem = unreadable(message, topic)
            if isinstance(problem, NotUnpacked):
                return problem.offset == first
            if problem is not None:
                raise problem
    raise ClusterProblem(f"Could not read {topic} at offset {offset}: nothing came for {patience_s:.0f} s")
