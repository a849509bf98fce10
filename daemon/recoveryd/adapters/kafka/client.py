"""How the daemon's own Kafka clients are made, and how their errors become ours.

Everything here blocks and runs in worker threads with a deadline. Properties are librdkafka's, as given for a cluster;
they may hold secrets and are never logged. How they read is `reading`.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ListConsumerGroupsResult

from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.topics import MAX_RECORD_BYTES
from recoveryd_jobs.shared.damage import UNPACKS
from recoveryd_jobs.shared.garbage import collect_in_own_thread
from recoveryd_jobs.shared.kafka_log import kafka_log
from recoveryd_jobs.shared.leaders import MAKES_NO_TOPIC
from recoveryd_jobs.shared.meeting import MEETS_SOON

C = TypeVar("C")
Properties = Mapping[str, Any]  # librdkafka properties

_log = kafka_log()

FOLLOWING_FETCH_WAIT_MS: Final = 500  # of who follows a topic for hours: a record comes at once nevertheless
READER_GROUP = "recoveryd-reader"  # a name that the library wants; nothing joins it
NOT_AUTHORISED = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001  (librdkafka's local codes have this form)
    KafkaError._SSL,  # noqa: SLF001
})  # fmt: skip
_NO_SUCH_TOPIC = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
})  # fmt: skip
_FILES = {  # with the names that people give them
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "https.ca.location": "https.ca.location",
}
_has_used: Final[set[frozenset[tuple[str, str]]]] = set()  # the files of every client that this process could make
_SHUT_OUT = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001
_LOGIN_REFUSED = frozenset({KafkaError._AUTHENTICATION})  # noqa: SLF001
_KNOCK_S, _LET_IN_S, _SIGHT_S = 5.0, 10.0, 3.0
ELSEWHERE_SOON = frozenset({  # the broker is there, but not ready for this question yet
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip
# What Kafka's own clients try again. The library's `retriable` says so of errors in transactions only.
_PASSING = ELSEWHERE_SOON | frozenset({
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LISTENER_NOT_FOUND,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
})  # fmt: skip
_TEXT_TRIES = 5


def make_admin(properties: Properties) -> AdminClient:
    return _made_admin({**properties, **MAKES_NO_TOPIC, "socket.connection.setup.timeout.ms": 5_000, "logger": _log})


def _made_admin(config: dict[str, Any]) -> AdminClient:
    collect_in_own_thread()  # here, so that no admin client exists before; a program need not think of it
    return _made(AdminClient, config)


def _made(kind: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    """A client. Raises `ClusterProblem` where its properties cannot be used, as a file that does not exist. It is
    retriable where the same files could be used before: they are being replaced, or were taken away for a moment.
    """
    files = frozenset((name, str(config[name])) for name in _FILES if name in config)
    try:
        client = kind({**MEETS_SOON, **config})
    except KafkaException as error:
        why = next((told for told in map(_unreadable, _FILES, _FILES.values(), repeat(config)) if told), "")
        message = f"The client properties cannot be used: {why or error.args[0].str()}"
        hint = "Look at the files that ssl.truststore.location and ssl.keystore.location name, and at ssl.key.password."
        is_passing = bool(files) and files in _has_used
        raise ClusterProblem(message, hint, code=Code.CONFIG_INVALID, retriable=is_passing) from error
    _has_used.add(files)
    return client


def _unreadable(name: str, javas: str, config: Mapping[str, Any]) -> str:
    """The library does not say which file it is."""
    place = str(config.get(name, "probe"))
    if place == "probe":
        return ""
    try:
        Path(place).read_bytes()
    except OSError as error:
        return f"{javas} names {place}: {error.strerror}."
    return ""


def shut_out(properties: Properties, cluster: str) -> ClusterProblem | None:
    """Why a cluster refuses us, or None when it does not say.

    A question that the client could not send because its login was refused returns as timed out, without the reason.
    A refused login is final. A failed handshake is not: a broker that shuts down may cause one.
    """
    if str(properties.get("security.protocol", "plaintext")).lower() == "plaintext":
        return None
    refusal, _answered = _knock(properties, _KNOCK_S, _SHUT_OUT)
    return None if refusal is None else _not_let_in(refusal, cluster)


def let_in(properties: Properties, cluster: str) -> None:
    """Return once a broker has answered with this login, within ten seconds. Raises `ClusterProblem` when the login is
    refused, and a retriable one when nobody answers, as brokers do that close the connection of a certificate that they
    do not accept.
    """
    # A handshake that one broker breaks off, as while it shuts down, is no refusal when another one answers.
    refusal, answered = _knock(properties, _LET_IN_S, _LOGIN_REFUSED)
    if answered:
        return
    if refusal is not None:
        raise _not_let_in(refusal, cluster)
    message = f"No broker of cluster {cluster} answered to the new login within {_LET_IN_S:.0f} s."
    hint = "It is tried again in a minute. Where other clients are let in, look at the certificate and its user."
    raise ClusterProblem(message, hint)


def _knock(properties: Properties, limit_s: float, final: Collection[int]) -> tuple[KafkaError | None, bool]:
    """The first refusal, and whether a broker answered to this login. Errors in `final` end it at once."""
    refused: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() in _SHUT_OUT:
            refused.append(error)

    config: dict[str, Any] = {**properties, "error_cb": note, "log_level": 0}
    admin = _made_admin(config)
    asked = admin.describe_cluster(request_timeout=limit_s)
    give_up_s = time.monotonic() + limit_s + 1.0
    while not asked.done() and time.monotonic() < give_up_s and not any(e.code() in final for e in refused):
        admin.poll(0.1)
    answered = asked.done() and not asked.cancelled() and asked.exception() is None
    return (refused[0] if refused else None), answered


def _not_let_in(refusal: KafkaError, cluster: str) -> ClusterProblem:
    message = f"Cluster {cluster} does not let us in: {refusal.str()}"
    if refusal.code() != KafkaError._AUTHENTICATION:  # noqa: SLF001
        return ClusterProblem(message)
    hint = "Check the user and its secret in the daemon's config. A file that holds it is read again when it changes; after any other change, restart the daemon."
    return ClusterProblem(message, hint, code=Code.NOT_AUTHORISED, retriable=False)


def has_lost_sight(client: Producer, properties: Properties, topic: str) -> bool:
    """Whether the cluster answers a new client within three seconds and then not this one; see `recoveryd.sight`."""
    try:
        make_admin(properties).list_topics(topic, timeout=_SIGHT_S)
    except KafkaException:
        return False
    try:
        client.list_topics(topic, timeout=_SIGHT_S)
    except KafkaException:
        return True
    return False


def make_consumer(properties: Properties, **overrides: Any) -> Consumer:
    """A consumer for `assign` only: it joins no group and commits nothing. read_committed unless overridden (dots are
    written as underscores).
    """
    config = {
        **properties,
        **UNPACKS,
        "group.id": READER_GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "auto.offset.reset": "earliest",  # only if retention passed the offset we start at
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 10,  # the end of a partition is told after this time
        "fetch.message.max.bytes": MAX_RECORD_BYTES,
        "queued.max.messages.kbytes": 16_384,
        "fetch.queue.backoff.ms": 20,  # else a reader slower than the broker waits a second whenever its queue was full
        "logger": _log,
    }
    return _made(Consumer, config | {name.replace("_", "."): value for name, value in overrides.items()})


def committed(consumer: Consumer, partitions: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
    """What the consumer's group committed there; of the answer only offsets and leader epochs are right.

    The library reads metadata without their length (2.16), so that what lies behind them in its memory comes too. Where
    that is no text it raises, and seldom does so twice. Raises `KafkaException`, and `ClusterProblem` when it never
    succeeds.
    """
    for _ in range(_TEXT_TRIES):
        try:
            return consumer.committed(partitions, timeout=timeout_s)
        except UnicodeDecodeError:
            continue
    raise ClusterProblem("the client library cannot read the metadata of commits")


def make_producer(properties: Properties, timeout_ms: int) -> Producer:
    """For single records that must not be lost: idempotent, acknowledged by all in-sync replicas."""
    config: dict[str, Any] = {
        **properties,
        **MAKES_NO_TOPIC,
        "client.id": "recoveryd-writer",
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": timeout_ms,
        "message.max.bytes": MAX_RECORD_BYTES,
        "logger": _log,
    }
    return _made(Producer, config)


def make_canary_producer(properties: Properties, timeout_ms: int) -> Producer:
    """For single records whose time to acknowledgement by all in-sync replicas is measured: nothing of our own may add
    to it.
    """
    config: dict[str, Any] = {
        **properties,
        **MAKES_NO_TOPIC,
        "client.id": "recoveryd-canary",
        "enable.idempotence": False,  # a producer id would have to be asked for first
        "acks": "all",
        "linger.ms": 0,
        "socket.nagle.disable": True,
        "compression.type": "none",
        "message.timeout.ms": timeout_ms,
        "topic.metadata.propagation.max.ms": min(timeout_ms, 5_000),
        "logger": _log,
    }
    return _made(Producer, config)


def make_transactional_producer(
    properties: Properties, transactional_id: str, transaction_timeout_ms: int, **overrides: Any
) -> Producer:
    """`message.timeout.ms` lies below the transaction's, so that a record never outlives its transaction."""
    config = {
        **properties,
        **MAKES_NO_TOPIC,
        "transactional.id": transactional_id,
        "client.id": transactional_id,
        "transaction.timeout.ms": transaction_timeout_ms,
        "message.timeout.ms": transaction_timeout_ms * 2 // 3,
        "message.max.bytes": MAX_RECORD_BYTES,
        "linger.ms": 0,
        "retry.backoff.ms": 20,
        "logger": _log,
    }
    return _made(Producer, config | {name.replace("_", "."): value for name, value in overrides.items()})


def problem(
    error: KafkaException | KafkaError, doing: str, operation: str = "", topic: str = "", other: str = ""
) -> ClusterProblem:
    """`doing` completes "Could not ...". Refused credentials or ACLs are final; what a broker may recover from is
    retriable.

    `operation` on `topic` is what was tried, in Kafka's words, `other` the group or transactional id in play: a refusal
    names what is not granted.
    """
    cause = error.args[0] if isinstance(error, KafkaException) else error
    text = f"Could not {doing}: {cause.str()}"
    if cause.code() in NOT_AUTHORISED:
        lacks = _lacking(cause.code(), operation, topic, other)
        hint = f"Grant {lacks} to the user; docs/acls.md has the whole list." if lacks else ""
        message = f"{text}; the user lacks {lacks}" if lacks else text
        return ClusterProblem(message, hint, code=Code.NOT_AUTHORISED, retriable=False)
    local = cause.code() < 0  # librdkafka's own: no connection, timed out, and the like
    return ClusterProblem(text, retriable=bool(cause.retriable() or local or cause.code() in _PASSING))


def brokers_errors(listing: ListConsumerGroupsResult) -> list[KafkaError]:
    """Why some brokers did not list their groups. They come as `KafkaError`, which is no exception, although the client
    documents `KafkaException`.
    """
    errors: Sequence[Any] = listing.errors or ()
    return [error.args[0] if isinstance(error, KafkaException) else error for error in errors]


def _lacking(code: int, operation: str, topic: str, other: str) -> str:
    """`Write on Topic flights`; "" when the broker's answer does not tell of an ACL, or nobody said what was tried."""
    match code:
        case KafkaError.TOPIC_AUTHORIZATION_FAILED if topic and operation:
            return f"{operation} on Topic {topic}"
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return f"Write on TransactionalId {other or 'recoveryd*'}"
        case KafkaError.GROUP_AUTHORIZATION_FAILED if other:
            return f"{operation or 'Describe'} on Group {other}"
        case KafkaError.CLUSTER_AUTHORIZATION_FAILED if operation:
            return f"{operation} on Cluster kafka-cluster"
        case _:
            return ""


def ask_again(ask: Callable[[], C], give_up_s: float, pause_s: float) -> C:
    """The answer; asked again until `give_up_s` (monotonic) while another try may tell. Raises `ClusterProblem`."""
    while True:
        try:
            return ask()
        except ClusterProblem as reason:
            left_s = give_up_s - time.monotonic()
            if not reason.retriable or left_s <= 0:
                raise
        time.sleep(min(pause_s, left_s))


def is_no_such_topic(error: KafkaException) -> bool:
    return error.args[0].code() in _NO_SUCH_TOPIC
