"""What can end or interrupt a lane, and the one place where errors of the Kafka client are translated into ours.

A `JobError` is final for this attempt and carries one of the contract's error codes. `Doubt` and `Redo` never leave the
lane: they say how it starts over. `Superseded` means that another attempt took over: there is nothing to report or
repair.
"""

# ruff: noqa: SLF001  (error codes of the client library itself begin with an underscore)

import contextlib
import re
from collections.abc import Iterator
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Message

from recoveryd_jobs.contract import ERROR_CODES
from recoveryd_jobs.shared.damage import DAMAGED

END = KafkaError._PARTITION_EOF  # the end of what is visible of a partition, which is no error
# nothing exists at this offset any more
OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_MARK = re.compile(r"\[recoveryd:([a-z_]+)\] (.*)", re.DOTALL)


class JobError(Exception):
    """The attempt cannot go on. `code` is one of ERROR_CODES; `message` is one sentence that names the topic or record,
    with offsets.
    """

    def __init__(self, code: str, message: str) -> None:
        assert code in ERROR_CODES
        super().__init__(f"[recoveryd:{code}] {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type["JobError"], tuple[str, str]]:
        return type(self), (self.code, self.message)


class Superseded(Exception):  # noqa: N818  (not an error: the newer attempt does the work)
    """A newer attempt exists, or the daemon told this one to leave."""


class Doubt(Exception):  # noqa: N818
    """The outcome of the open transaction is unknown: drop the producer, start a new one, read the receipts."""

    def __init__(self, message: str, *, fenced: bool = False) -> None:
        super().__init__(message)
        self.fenced = fenced


class Redo(Exception):  # noqa: N818
    """The open chunk failed before its commit: abort it and do it again from the last receipt.

    `dense`: with a delivery callback for every record. `smaller`: with smaller chunks. `reopen`: the client itself
    failed the transaction, so its sequence numbers can be wrong and the next chunk gets a new producer.
    """

    def __init__(
        self,
        message: str,
        *,
        dense: bool = False,
        smaller: bool = False,
        reopen: bool = False,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.dense = dense
        self.smaller = smaller
        self.reopen = reopen
        # Error code behind it, if final: ends the attempt when a dense repetition finds no record to blame.
        self.code = code


def raise_failed(error: KafkaError) -> NoReturn:
    """Raise for a transaction that failed before its commit. After a final error the chunk is repeated dense, which
    finds the record that caused it.
    """
    if is_fenced(error) or error.fatal():
        raise Doubt(error.str(), fenced=is_fenced(error))
    code = final_code(error)
    raise Redo(error.str(), dense=code is not None, reopen=True, code=code)


def untranslated(raised: KafkaException | SystemError) -> Doubt:
    """For an exception of the client where no step of a lane expects one, such as a producer fenced between two calls:
    the outcome is unknown, so start over.

    A client call that fails while delivery reports come in can end as Python's SystemError, with the client's own
    exception as its cause.
    """
    cause = raised if isinstance(raised, KafkaException) else raised.__cause__
    if isinstance(cause, KafkaException):
        return Doubt(cause.args[0].str(), fenced=is_fenced(cause.args[0]))
    return Doubt(f"the client broke off: {raised}")


def from_text(text: str) -> JobError | None:
    """The JobError whose text is somewhere in `text`, for instance in a Java stack trace of a failed task."""
    found = _MARK.search(text)
    if found is None or found.group(1) not in ERROR_CODES:
        return None
    return JobError(found.group(1), found.group(2).splitlines()[0])


_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_NOT_AUTHORISED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REFUSED = {KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION}
_NO_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def is_fenced(error: KafkaError) -> bool:
    return error.code() in _FENCED


def is_no_topic(error: KafkaError) -> bool:
    """The broker does not know the topic: it is deleted, or not loaded yet. Only asking again tells which."""
    return error.code() in _NO_TOPIC


def refusal(error: KafkaError, operation: str, topic: str, transactional_id: str = "") -> str:
    """What the broker said and, for a missing ACL, which one: `operation` on `topic`, or the right to use the
    transactional id.
    """
    match error.code():
        case KafkaError.TOPIC_AUTHORIZATION_FAILED if topic:
            lacks = f"{operation} on Topic {topic}"
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional_id:
            lacks = f"Write on TransactionalId {transactional_id}"
        case _:
            return f"{error.str()}."
    return f"{error.str()}; the user lacks {lacks}."


def unreadable(error: KafkaError, side: str, message: Message) -> JobError | None:
    """The JobError for an error, told by `message`, that ends the reading of a topic for good (`side`: source or
    target); None where the client goes on trying by itself.
    """
    topic = message.topic() or f"The {side}"
    if is_refusal(error):
        code = "not_authorised" if side == "source" else "target_not_authorised"
        return JobError(code, f"The {side} refuses to be read: {refusal(error, 'Read', topic)}")
    if error.fatal():
        return JobError(f"{side}_unavailable", f"{topic} cannot be read any more: {error.str()}.")
    if error.code() in DAMAGED:
        where = f"{topic} partition {message.partition()} cannot be read at offset {message.offset()}"
        return JobError(
            f"{side}_unavailable", f"{where}: {error.str()}. Its log is damaged, if other clients say so too."
        )
    return None


def is_damaged(message: Message, first: int = 0) -> bool:
    """Whether an event tells of a damaged batch that is said to begin at `first` or behind it. The client tells of one
    that lies behind what is wanted because it reads ahead. That it does lie there is another question
    (`recoveryd_jobs.sound_logs`): its offset may be damaged too.
    """
    error, offset = message.error(), message.offset()
    return error is not None and error.code() in DAMAGED and offset is not None and offset >= first


@contextlib.contextmanager
def naming_side(side: str) -> Iterator[None]:
    """For calls of the client about a topic of that side (source, or else the target's cluster): an exception of the
    client becomes the JobError that says which side it was.
    """
    is_source = side == "source"
    try:
        yield
    except KafkaException as raised:
        if is_refusal(raised.args[0]):
            code = "not_authorised" if is_source else "target_not_authorised"
            raise JobError(code, f"The {side} refuses to be read: {raised.args[0].str()}.") from None
        code = "source_unavailable" if is_source else "target_unavailable"
        raise JobError(code, f"The {side} cannot be read: {raised.args[0].str()}.") from None


def is_refusal(error: KafkaError) -> bool:
    """The user is not authorised for this, or could not be authenticated."""
    return error.code() in _NOT_AUTHORISED


def final_code(error: KafkaError) -> str | None:
    """The error code when trying again at the target cannot help, else None."""
    code = error.code()
    if code in _NOT_AUTHORISED:
        return "target_not_authorised"
    if code in _TOO_LARGE:
        return "record_too_large"
    if code in _REFUSED:
        return "record_refused"
    return None
