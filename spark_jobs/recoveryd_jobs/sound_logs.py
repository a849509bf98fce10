"""What is sure of a log before a damaged batch.

The offset that the client names for such a batch stands in its header, where no check sum covers it. Where the header
itself is damaged, it may lie behind records that nobody has seen, so it is not believed. Only sound records and markers
show how far a log was read. Markers are not given; so a reader of its own goes over them once more, event by event,
since one that takes many events at once does not say what lay before which.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.shared.damage import DAMAGED

_LOOK_S = 10.0
_STEP_S = 0.2
_QUEUE_BYTES = 1024 * 1024


def is_harmless(message: Message, client: Mapping[str, str], client_id: str, left: TopicPartition, stop: int) -> bool:
    """Whether an event tells of a damaged batch that harms nobody who reads from `left` to `stop`, as nothing lies
    there.
    """
    return errors.is_damaged(message, stop) and is_empty(client, client_id, left, stop)


def is_empty(client: Mapping[str, str], client_id: str, place: TopicPartition, stop: int) -> bool:
    """Whether markers, or a record behind, show that no committed record lies between the offset of `place` and `stop`.
    False also where that is not known within some seconds.
    """
    if place.offset >= stop:
        return True
    try:
        reader = make_reader(client, client_id, _QUEUE_BYTES, fetch_wait_ms=QUICK_FETCH_WAIT_MS)
        try:
            meet(reader, place.topic)
            reader.assign([place])
            return _goes_past(reader, place, stop)
        finally:
            reader.close()
    except KafkaException:
        return False


def _goes_past(reader: Consumer, place: TopicPartition, stop: int) -> bool:
    give_up_s = time.monotonic() + _LOOK_S
    while time.monotonic() < give_up_s:
        message = reader.poll(_STEP_S)
        error = None if message is None else message.error()
        if message is not None and error is None:
            return (message.offset() or 0) >= stop
        [now] = reader.position([place])  # `poll` counts markers in their order, and no errors
        if now.offset >= stop:
            return True
        if error is not None and error.code() in DAMAGED:
            return False
    return False
