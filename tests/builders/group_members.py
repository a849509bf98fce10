"""Members of groups that no library here speaks for: one request lets a broker count a member of Kafka Streams, a share
consumer or a worker of Connect.

They send no heartbeats, so the broker drops them when their session times out.
"""

import asyncio
from typing import Any

from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.group import JoinGroupRequest_v0
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from recoveryd.adapters.kafka.raw_forms import Perhaps
from tests.patience import patient_s

TEXT, TAGS = CompactString("utf-8"), ("tags", TaggedFields)
SESSION_MS = 120_000


class Rest(Response):  # type: ignore[misc]
    """The beginning of an answer, which is all that is looked at."""

    API_KEY, API_VERSION = 0, 0
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("message", TEXT), ("member", TEXT))


class JoinStreams(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 88, 0, Rest
    SCHEMA = Schema(
        ("group", TEXT), ("member", TEXT), ("epoch", Int32), ("endpoint_epoch", Int32), ("instance", TEXT), ("rack", TEXT),
        ("rebalance_timeout_ms", Int32),
        (
            "topology",
            Perhaps(
                ("epoch", Int32),
                (
                    "subtopologies",
                    CompactArray(
                        ("id", TEXT), ("sources", CompactArray(TEXT)), ("regex", CompactArray(TEXT)), ("changelogs", CompactArray(TEXT)),
                        ("sinks", CompactArray(TEXT)), ("repartitions", CompactArray(TEXT)), ("together", CompactArray(TEXT)), TAGS,
                    ),
                ),
                TAGS,
            ),
        ),
        ("active", CompactArray(TEXT)), ("standby", CompactArray(TEXT)), ("warmup", CompactArray(TEXT)), ("process", TEXT),
        ("endpoint", Perhaps(("host", TEXT))), ("client_tags", CompactArray(TEXT)), ("offsets", CompactArray(TEXT)), ("ends", CompactArray(TEXT)),
        ("shuts_down", Boolean), TAGS,
    )  # fmt: skip


class JoinShare(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 76, 1, Rest
    SCHEMA = Schema(
        ("group", TEXT), ("member", TEXT), ("epoch", Int32), ("rack", TEXT), ("topics", CompactArray(TEXT)), TAGS
    )


class _Asked:
    def __init__(self, form: RequestStruct) -> None:
        self.form = form

    def prepare(self, _versions: Any) -> RequestStruct:
        return self.form


MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def streams_member(group: str, topic: str, epoch: int = 0) -> RequestStruct:
    """`epoch` 0 joins, -1 leaves."""
    topology = (0, [("0", [topic], [], [], [], [], [], {})], {}) if epoch == 0 else None
    tasks: list[Any] | None = [] if epoch == 0 else None
    process = "p1" if epoch == 0 else None
    return JoinStreams(
        group, MEMBER, epoch, 0, None, None, 60_000 if epoch == 0 else -1, topology, tasks, tasks, tasks, process, None, tasks, None, None, False, {},
    )  # fmt: skip


def share_member(group: str, topic: str) -> RequestStruct:
    return JoinShare(group, MEMBER, 0, None, [topic], {})


def connect_worker(group: str) -> RequestStruct:
    return JoinGroupRequest_v0(group, SESSION_MS, "", "connect", [("default", b"")])


UNKNOWN_MEMBER = 25  # to one that leaves: it is gone already
_NOT_YET = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR


async def tell(bootstrap: str, group: str, form: RequestStruct, *also: int) -> Any:
    """The coordinator's answer, which must be without an error or with one of those in `also`; again as long as the
    group has no coordinator.
    """
    client = AIOKafkaClient(bootstrap_servers=bootstrap, client_id="member")
    await client.bootstrap()
    try:
        async with asyncio.timeout(patient_s(60)):
            while (answer := await _heard(client, group, form)) is None or answer.error_code in _NOT_YET:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        await client.close()
    assert answer.error_code in {0, *also}, answer
    return answer


async def _heard(client: AIOKafkaClient, group: str, form: RequestStruct) -> Any:
    try:
        node = await client.coordinator_lookup(CoordinationType.GROUP, group)
        return await client.send(node, _Asked(form))
    except KafkaError as error:
        if not error.retriable:
            raise
        return None
