"""Commits for groups of others, by a consumer that never joins: Kafka takes them while the group has no members.

What a commit must not do is looked at here too: move a group out of the log. Nothing here knows what a workflow is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_consumer, problem
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.raw_groups import Commit
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess

_PIECE: Final = 500
_TIMEOUT_S: Final = 15.0
# How a coordinator refuses a commit from outside while it has members, in the protocols of classic and other groups.
_ALIVE: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)


def commit_places(properties: Properties, group: str, places: Sequence[TopicPartition]) -> None:
    """In pieces, so that those before one that is refused are committed. Raises `ClusterProblem`, with
    `GROUP_NOT_EMPTY` and worth another try where the group has members.
    """
    if not places:
        return
    consumer = make_consumer(properties, group_id=group)
    try:
        for at in range(0, len(places), _PIECE):
            for done in consumer.commit(offsets=list(places[at : at + _PIECE]), asynchronous=False) or ():
                if done.error is not None:
                    raise _refused(done.error, group)
    except KafkaException as error:
        raise _refused(error, group) from error
    finally:
        consumer.close()


def commit_exactly(access: ClientAccess, group: str, commits: Sequence[Commit]) -> None:
    """As `commit_places`, for what was read from the broker and goes back as it was: librdkafka 2.16 sends metadata
    with a NUL behind them, and takes none that have one. Blocks.
    """
    if commits:
        asyncio.run(_commit_exactly(access, group, commits))


async def _commit_exactly(access: ClientAccess, group: str, commits: Sequence[Commit]) -> None:
    async with connected(access, "recoveryd-commits", f"set the offsets of group {group}", _TIMEOUT_S) as client:
        for at in range(0, len(commits), _PIECE):
            await client.commit(group, commits[at : at + _PIECE])


def outside_log(admin: AdminClient, places: Mapping[tuple[str, int], int]) -> list[str]:
    """One sentence for each of these positions that lies outside the log as it is now. Raises `ClusterProblem`."""
    told = []
    for topic in sorted({topic for topic, _ in places}):
        keys = [key for key in places if key[0] == topic]
        starts = read_offsets(admin, keys, EARLIEST, _TIMEOUT_S)
        ends = read_offsets(admin, keys, LATEST, _TIMEOUT_S)
        told += [
            f"{topic} {p}: offset {places[topic, p]:,} lies outside the log, which has [{starts[p]:,}, {ends[p]:,}) now"
            for _, p in keys
            if not starts[p] <= places[topic, p] <= ends[p]
        ]
    return told


def _refused(error: KafkaException | KafkaError, group: str) -> ClusterProblem:
    cause = error.args[0] if isinstance(error, KafkaException) else error
    if cause.code() in _ALIVE:
        return ClusterProblem(f"the group {group} has members again", code=Code.GROUP_NOT_EMPTY)
    return problem(error, f"set the offsets of group {group}", "Read", other=group)
