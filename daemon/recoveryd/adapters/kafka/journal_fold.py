"""Reading back what the journal and the control topic hold: everything a new leader knows, and nothing else.

The folds take plain records, so that the in-memory journal uses the same ones; `TopicReader` brings the records from
Kafka. Blocking. Each topic has one partition and is read once from its start to an end that is fixed before.
"""

import contextlib
import ctypes
import gc
import threading
from collections.abc import Iterable, Iterator

import structlog
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.control_reading import read_control
from recoveryd.adapters.kafka.offsets import log_range
from recoveryd.adapters.kafka.reading import control_record, read_to
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand, idempotency_key
from recoveryd.kernel.events import Seen, SignalRefused
from recoveryd.ports import ControlRecord
from recoveryd.wire.codec import Codec, DecodedSignal, Unreadable
from recoveryd.wire.status_topic import StatusFold, StatusTopic, StatusUnreadable
from recoveryd_jobs.contract import ContractError, Directive, decode
from recoveryd_jobs.shared.garbage import uncollected

log = structlog.stdlib.get_logger(__name__)

SEEN_AT_MOST = 100_000  # some 40 MB, whatever is sent

_SIGNAL = b"io.recoveryd.signal."
_COMMAND = b"io.recoveryd.command."
_TYPE_HEADER = "ce_type"
_END_TIMEOUT_S = 10.0

_is_kept = threading.Event()  # what an earlier `kept_for_good` kept is kept still


def fold_status(topic: StatusTopic, records: Iterable[ControlRecord]) -> StatusFold:
    """Raises `RecoverydError` (INVARIANT_BROKEN) for a record this release cannot read: half of the truth is worse than
    none.
    """
    try:
        return topic.fold((record.key, record.value) for record in records)
    except StatusUnreadable as error:
        raise RecoverydError(Code.INVARIANT_BROKEN, f"A status record cannot be read: {error}") from error


def fold_seen(codec: Codec, records: Iterable[ControlRecord]) -> dict[bytes, Seen]:
    """Idempotency keys of control records: first offset and content of each, the newest 100,000 keys.

    A record on which the codec breaks is left out: it was decided on by an earlier leader and keeps no later one from
    leading. Lost with it is only its key, so the same command sent again would be taken for a new one.
    """
    seen: dict[bytes, Seen] = {}
    for record in records:
        if _is_signal(record):
            continue  # most of the topic, and without an answer: not worth decoding
        try:
            identity = _identity(codec, record)
        except Exception:
            log.exception("a control record cannot be folded, its key is not remembered", offset=record.offset)
            continue
        if identity is not None and identity[0] not in seen:
            seen[identity[0]] = Seen(record.offset, identity[1])
            if len(seen) > SEEN_AT_MOST:
                del seen[next(iter(seen))]
    return seen


def _is_signal(record: ControlRecord) -> bool:
    """By its bytes alone. In binary mode the value tells no type, and that of a command may quote a signal."""
    if record.value is None or _SIGNAL not in record.value or _COMMAND in record.value:
        return False
    return not any(name.lower() == _TYPE_HEADER for name, _ in record.headers)


def fold_sequences(records: Iterable[ControlRecord]) -> dict[str, int]:
    """The last sequence given to the lanes of each recovery, from the directives topic. A record that is no directive
    counts as none.
    """
    newest: dict[str, bytes] = {}
    for record in records:
        recovery = (record.key or b"").decode(errors="replace")
        newest.pop(recovery, None)
        if record.value is not None:
            newest[recovery] = record.value
    sequences = {}
    for recovery, value in newest.items():
        try:
            sequences[recovery] = decode(Directive, value).sequence
        except ContractError:
            continue
    return sequences


@contextlib.contextmanager
def kept_for_good() -> Iterator[None]:
    """What is made inside stays until `let_go`, so the garbage collector need not walk it: not now, which doubles the
    time to fold, and not later, when a walk over ten thousand recoveries would stop the loop for a tenth of a second.

    The collector can only be told of everything that there is now. So garbage goes first: a client of librdkafka that
    an exception's traceback still holds would be kept too, and connect for ever. What others froze, as the process its
    imports, holds none: to walk it takes a tenth of a second, in which nobody leads.
    """
    with uncollected():
        if _is_kept.is_set():
            let_go()
        gc.collect()
        try:
            yield
        finally:
            gc.freeze()
            _is_kept.set()


def let_go() -> None:
    """The collector walks again what was kept: it may be garbage by now."""
    gc.unfreeze()
    _is_kept.clear()


def give_back() -> None:
    """Hand to the system what reading took and nobody holds any more: a client that has run ahead of us by a hundred
    thousand tombstones freed thirty megabytes, which glibc would keep for good. Another C library has no such call, and
    does as it does.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class TopicReader:
    """Reads own topics of one cluster one after the other, with one consumer. Gives each up when nothing of it came for
    `patience_s`; what others took before it does not count, or a daemon with a long control topic would never lead.
    """

    def __init__(self, admin: AdminClient, consumer: Consumer, patience_s: float) -> None:
        self._admin = admin
        self._consumer = consumer
        self._patience_s = patience_s

    def records(self, topic: str, stop: int | None = None) -> Iterator[ControlRecord]:
        """From the start of the log to `stop`, at most to its end as it is now. Raises `ClusterProblem`."""
        start, stop = self._bounds(topic, stop)
        if start < stop:
            for message in read_to(self._consumer, topic, 0, start, stop, self._patience_s):
                yield control_record(message)

    def commands(self, topic: str, stop: int) -> Iterator[ControlRecord]:
        """The same of the control topic, to which others write."""
        start, stop = self._bounds(topic, stop)
        yield from read_control(self._consumer, topic, start, stop, self._patience_s)

    def _bounds(self, topic: str, stop: int | None) -> tuple[int, int]:
        start, end = log_range(self._admin, topic, 0, _END_TIMEOUT_S)
        return start, end if stop is None else min(stop, end)


def _identity(codec: Codec, record: ControlRecord) -> tuple[bytes, str] | None:
    match codec.decode(record.key, record.value, record.headers, record.broker_ms, record.offset):
        case Unreadable() | SignalRefused() | DecodedSignal():
            return None
        case RefusedCommand() as refusal:
            if not refusal.source or not refusal.id:
                return None
            return idempotency_key(refusal.source, refusal.id), refusal.content_hash
        case command:
            return idempotency_key(command.meta.source, command.meta.id), command.meta.content_hash
