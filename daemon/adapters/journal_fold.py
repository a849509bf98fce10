"""Reading back what the journal and the control topic hold: everything a new leader knows, and nothing else.

Blocking. Each topic has one partition and is read once from its start to an end that is fixed before.
"""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient

from daemon.adapters.kafka_client import read_to
from daemon.adapters.kafka_offsets import log_range
from daemon.core.catalogue import Code
from daemon.core.commands import HealthSignal, LagSignal, Refusal
from daemon.core.events import Seen, SignalRefused
from daemon.core.model import DaemonRecord, Recovery
from daemon.errors import RecoverydError
from daemon.wire.codec import Unreadable, decode_control
from daemon.wire.status_fold import StatusUnreadable, fold
from spark_jobs.contract import ContractError, Directive, decode

SEEN_AT_MOST = 100_000

_SIGNAL = b"io.recoveryd.signal."
_COMMAND = b"io.recoveryd.command."
_END_TIMEOUT_S = 10.0


class TopicReader:
    """Reads own topics of one cluster one after the other, with one consumer, until `deadline_s` from now."""

    def __init__(self, admin: AdminClient, consumer: Consumer, deadline_s: float) -> None:
        self._admin = admin
        self._consumer = consumer
        self._give_up_s = time.monotonic() + deadline_s

    def messages(self, topic: str, stop: int | None = None) -> Iterator[Message]:
        """From the start of the log to `stop`, at most to its end as it is now. Raises `ClusterProblem`."""
        start, end = log_range(self._admin, topic, 0, _END_TIMEOUT_S)
        stop = end if stop is None else min(stop, end)
        if start < stop:
            yield from read_to(self._consumer, topic, 0, start, stop, self._give_up_s - time.monotonic())


def fold_status(reader: TopicReader, topic: str) -> tuple[dict[str, Recovery], DaemonRecord]:
    """Raises `RecoverydError` (INVARIANT_BROKEN) for a record this release cannot read: half of the truth is worse than none."""
    try:
        return fold((_bytes(m.key()), _bytes(m.value())) for m in reader.messages(topic))
    except StatusUnreadable as error:
        raise RecoverydError(Code.INVARIANT_BROKEN, f"A record of {topic} can not be read: {error}") from error


def read_seen(reader: TopicReader, topic: str, applied_offset: int) -> dict[tuple[str, str], Seen]:
    """Idempotency keys of the control records up to `applied_offset`: first offset and content, the newest 100,000 keys."""
    seen: dict[tuple[str, str], Seen] = {}
    for message in reader.messages(topic, applied_offset + 1):
        value = _bytes(message.value())
        if value is not None and _SIGNAL in value and _COMMAND not in value:
            continue  # signals are most of the topic and have no answer: not worth decoding
        offset = message.offset() or 0
        identity = _identity(message, value, offset)
        if identity is not None and identity[0] not in seen:
            seen[identity[0]] = Seen(offset, identity[1])
            if len(seen) > SEEN_AT_MOST:
                del seen[next(iter(seen))]
    return seen


def read_directive_sequences(reader: TopicReader, topic: str) -> dict[str, int]:
    """The last sequence given to the lanes of each recovery. A record that is no directive counts as none."""
    newest: dict[str, bytes] = {}
    for message in reader.messages(topic):
        key, value = _bytes(message.key()) or b"", _bytes(message.value())
        newest.pop(key.decode(errors="replace"), None)
        if value is not None:
            newest[key.decode(errors="replace")] = value
    sequences = {}
    for recovery, value in newest.items():
        try:
            sequences[recovery] = decode(Directive, value).sequence
        except ContractError:
            continue
    return sequences


def _identity(message: Message, value: bytes | None, offset: int) -> tuple[tuple[str, str], str] | None:
    pairs: Any = message.headers() or ()
    headers = tuple((name, _bytes(raw)) for name, raw in pairs)
    match decode_control(_bytes(message.key()), value, headers, message.timestamp()[1], offset):
        case Unreadable() | SignalRefused() | LagSignal() | HealthSignal():
            return None
        case Refusal() as refusal:
            return ((refusal.source, refusal.id), refusal.content_hash) if refusal.source and refusal.id else None
        case command:
            return (command.meta.source, command.meta.id), command.meta.content_hash


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
