"""Makes the Kafka clients of the jobs from the cluster properties of a spec. All settings that matter for exactness are
here, in one place.

Where lanes run on other machines, a client property holds the text of a file instead of its path (marked by `INLINE`);
the client then reads it from memory.

Client handles must not cross a fork or a pickle: call everything here inside a task or in the driver, never at import.
Client properties hold secrets and are never logged.
"""

import base64
import contextlib
import functools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from recoveryd_jobs.contract import REPORT_BYTES_MAX
from recoveryd_jobs.fetching import STATISTICS_MS, Fetching
from recoveryd_jobs.shared.damage import UNPACKS
from recoveryd_jobs.shared.kafka_log import kafka_log
from recoveryd_jobs.shared.leaders import MAKES_NO_TOPIC
from recoveryd_jobs.shared.meeting import MEETS_SOON

FETCH_BYTES = 8 * 1024 * 1024
QUEUE_FULL_SPEED_BYTES = 64 * 1024 * 1024
ASK_TIMEOUT_S = 10.0
_MEET_TIMEOUT_S = 5.0
_TOKENS_FROM = "sasl.oauthbearer.token.endpoint.url"
_SHUT_OUT = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001  (librdkafka's local codes)
# For reading a topic once to its end. An end behind transaction markers shows only when a fetch returns empty, so
# fetches must return soon.
QUICK_FETCH_WAIT_MS = 10
FETCH_WAIT_MS = 200
# For following a topic as long as a lane lives: a record comes at once nevertheless, and there are as many such readers
# as lanes.
FOLLOWING_FETCH_WAIT_MS = 500
_ANSWER_BYTES_MIN = 1024 * 1024  # the client takes no less than its largest message
_BATCH_BYTES = 1_000_000
_BATCH_OVERHEAD_BYTES = 4096
_RECORD_BYTES_MAX = 1_000_000_000  # the target decides what is too large, not the client
_QUEUE_RECORDS_MAX = 10_000_000


# Properties that name a file; a value that begins with INLINE is the file itself, in base64.
LOCATIONS = frozenset({"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location"})
INLINE = "inline:"


def opened(client: Mapping[str, str]) -> dict[str, str]:
    """The properties, with inlined files replaced by paths that this process can open. The files lie in its memory,
    never on a disk.
    """
    return {
        name: _in_memory(value) if name in LOCATIONS and value.startswith(INLINE) else value
        for name, value in client.items()
    }


def _logged(client: Mapping[str, str]) -> dict[str, Any]:
    """Where the address of a token endpoint may hold a key, the library must not write it to stderr by itself. Else it
    does write there: it needs nobody to poll for that, and some clients never are.
    """
    endpoint = client.get(_TOKENS_FROM, "")
    return {"logger": kafka_log()} if "?" in endpoint or "#" in endpoint else {}


@functools.cache  # few different files per application; librdkafka opens some of them again and again
def _in_memory(inlined: str) -> str:
    descriptor = os.memfd_create("recoveryd", os.MFD_CLOEXEC)
    os.write(descriptor, base64.b64decode(inlined.removeprefix(INLINE)))
    return f"/proc/self/fd/{descriptor}"


def lane_client_id(recovery: str, lane: int) -> str:
    """`client.id` of a lane's clients that do not move data: directives, progress, queries.

    It differs from the copying client's, so that a quota on the copy never cuts a lane off from the daemon.
    """
    return f"recoveryd.{recovery}.{lane}"


def make_reader(
    client: Mapping[str, str],
    client_id: str,
    queue_bytes: int,
    *,
    isolation: str = "read_committed",
    fetch_wait_ms: int = FETCH_WAIT_MS,
    fetch_bytes: int = FETCH_BYTES,
    answer_bytes: int | None = None,
    fetching: Fetching | None = None,
) -> Consumer:
    """A consumer for `assign` only: no group, no commits, no offset reset, an event at each end of a partition.

    `queue_bytes`: it fetches on while less waits. `fetch_bytes`: of one partition in one answer; `answer_bytes`: of all
    partitions in it, None = as the library sets it, `queue_bytes` or 50 MB. A larger batch comes all the same, alone.
    `fetching` is told every few seconds how far it has fetched.
    """
    told = {} if fetching is None else {"statistics.interval.ms": STATISTICS_MS, "stats_cb": fetching.note}
    bound = {} if answer_bytes is None else {"fetch.max.bytes": max(answer_bytes, _ANSWER_BYTES_MIN)}
    return Consumer({
        **MEETS_SOON,
        **bound,  # what the properties of the cluster say goes before it
        **opened(client),
        **_logged(client),
        **UNPACKS,
        "client.id": client_id,
        "group.id": client_id,  # the library requires one; nothing ever joins the group or commits to it
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": max(queue_bytes // 1024, 1024),
        "fetch.message.max.bytes": min(fetch_bytes, max(queue_bytes, 65_536)),
        "fetch.wait.max.ms": fetch_wait_ms,
        "fetch.error.backoff.ms": 200,
        "fetch.queue.backoff.ms": 20,
        "reconnect.backoff.max.ms": 2000,
        **told,
    })  # fmt: skip


def meet(reader: Consumer, topic: str) -> None:
    """Let the reader find the topic's leaders. Without this, an assignment made before it is connected waits up to a
    second for a timer of librdkafka.

    No answer is no error here: the reader goes on trying by itself.
    """
    with contextlib.suppress(KafkaException):
        reader.list_topics(topic, timeout=_MEET_TIMEOUT_S)


def make_writer(
    client: Mapping[str, str],
    client_id: str,
    transactional_id: str,
    transaction_timeout_ms: int,
    batch_bytes_max: int,
    compression: str,
) -> Producer:
    """A transactional producer. A record that is not delivered fails, and its chunk with it, well before the broker
    would end the transaction.
    """
    return Producer({
        **MEETS_SOON,
        **opened(client),
        **_logged(client),
        **MAKES_NO_TOPIC,
        "client.id": client_id,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": transaction_timeout_ms,
        "message.timeout.ms": max(1000, int(transaction_timeout_ms * 0.8)),
        "enable.idempotence": True,
        "compression.type": compression,
        "linger.ms": 200,  # nobody sees a record before its chunk commits, and that waits for no linger
        "batch.size": max(1, min(_BATCH_BYTES, batch_bytes_max - _BATCH_OVERHEAD_BYTES)),
        "batch.num.messages": 100_000,
        "message.max.bytes": _RECORD_BYTES_MAX,
        "queue.buffering.max.messages": _QUEUE_RECORDS_MAX,
        "queue.buffering.max.kbytes": 2 * _RECORD_BYTES_MAX // 1024,  # takes any record; the limits of chunks bound it
        "reconnect.backoff.max.ms": 2000,
        "retry.backoff.max.ms": 500,
    })  # fmt: skip


def make_sender(client: Mapping[str, str], client_id: str) -> Producer:
    """A small producer without transactions for progress records, which are hints and may get lost."""
    return Producer({
        **MEETS_SOON,
        **opened(client),
        **_logged(client),
        **MAKES_NO_TOPIC,
        "client.id": client_id,
        "linger.ms": 5,
        "message.timeout.ms": 10_000,
        "queue.buffering.max.messages": 1000,
        "reconnect.backoff.max.ms": 2000,
        "message.max.bytes": REPORT_BYTES_MAX,
    })  # fmt: skip


def make_admin(client: Mapping[str, str], client_id: str) -> AdminClient:
    return AdminClient({
        **MEETS_SOON,
        **opened(client),
        **_logged(client),
        **MAKES_NO_TOPIC,
        "client.id": client_id,
        "reconnect.backoff.max.ms": 2000,
    })  # fmt: skip


def shut_out(client: Mapping[str, str], client_id: str) -> str:
    """Why a cluster refuses us, or "" when it does not say.

    A question that the client could not send because its login was refused returns as timed out, without the reason.
    """
    if client.get("security.protocol", "plaintext").lower() == "plaintext":
        return ""
    refused: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() in _SHUT_OUT:
            refused.append(error)

    config: dict[str, Any] = {**opened(client), "client.id": client_id, "error_cb": note, "log_level": 0}
    admin = AdminClient(config)
    asked = admin.describe_cluster(request_timeout=_MEET_TIMEOUT_S)
    while not refused and not asked.done():
        admin.poll(0.1)
    return refused[0].str() if refused else ""


START, COMMITTED_END, UNCOMMITTED_END = "start", "committed end", "uncommitted end"
_QUERIES: dict[str, tuple[Any, IsolationLevel]] = {
    START: (OffsetSpec.earliest, IsolationLevel.READ_UNCOMMITTED),
    COMMITTED_END: (OffsetSpec.latest, IsolationLevel.READ_COMMITTED),
    UNCOMMITTED_END: (OffsetSpec.latest, IsolationLevel.READ_UNCOMMITTED),
}


def start_offset_query(
    admin: AdminClient, partitions: Iterable[TopicPartition], which: str
) -> dict[TopicPartition, "Future[Any]"]:
    """Ask for log starts, last stable offsets or high watermarks (`which`); the answers come within ASK_TIMEOUT_S."""
    spec, isolation = _QUERIES[which]
    return admin.list_offsets({p: spec() for p in partitions}, isolation_level=isolation, request_timeout=ASK_TIMEOUT_S)
