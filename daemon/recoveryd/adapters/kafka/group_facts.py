"""What a cluster says of a consumer group: whether it exists, its members, what it committed. Asked once, for a plan or
a person; `group_offsets` asks for many groups every few seconds, and `group_commits` changes offsets.

Blocking; every question has a deadline. A group whose protocol librdkafka cannot describe is asked for by `any_group`,
if `access` says how.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.any_group import tell_kind
from recoveryd.adapters.kafka.client import (
    ELSEWHERE_SOON,
    Properties,
    brokers_errors,
    committed,
    make_consumer,
    problem,
)
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, Group, GroupType, Member

_TIMEOUT_S: Final = 15.0
_AGAIN_S: Final = 0.2
_ASSIGNOR_OF_STREAMS: Final = "stream"
_PARTITIONS_AT_ONCE: Final = 500
_TYPES: Final = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}
_OTHER_KINDS: Final = frozenset({
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.INVALID_GROUP_ID,
    KafkaError._INVALID_ARG,  # noqa: SLF001  (what it says of a group that is not of consumers)
})  # fmt: skip
_GONE: Final = frozenset({ConsumerGroupState.DEAD})


def list_groups(admin: AdminClient) -> tuple[frozenset[str], tuple[str, ...]]:
    """Those that the user may describe, and what is missing: each broker lists its own, once it has loaded them."""
    doing, give_up_s = "list the consumer groups", time.monotonic() + _TIMEOUT_S
    while True:
        answer = _wait(admin.list_consumer_groups(request_timeout=_TIMEOUT_S), doing)
        errors = brokers_errors(answer)
        loads = any(error.code() in ELSEWHERE_SOON for error in errors)
        if not loads or time.monotonic() >= give_up_s:
            break
        time.sleep(_AGAIN_S)
    if errors and not answer.valid:
        raise problem(errors[0], doing)
    untold = tuple(f"some groups are not listed: {problem(error, doing).message}" for error in errors[:1])
    return frozenset(group.group_id for group in answer.valid), untold


def read_group(
    properties: Properties,
    admin: AdminClient,
    group: str,
    shapes: Mapping[str, TopicShape],
    access: ClientAccess | None = None,
    *,
    is_listed: bool,
) -> Group | None:
    """None when there is none. A group that is not listed is asked for as well: it may be one that the user has no
    right to. `access` is needed for groups that librdkafka cannot describe, and for the metadata of commits. Raises
    `ClusterProblem`.
    """
    found = describe_groups(admin, [group])[group]
    if isinstance(found, ClusterProblem):
        raise found
    if found is None and not is_listed:
        return None
    commits = read_committed(properties, group, keys_of(shapes), access=access)
    if found is None:
        unknown = Group(group, GroupType.UNKNOWN, "unknown", committed=commits)
        counts = {name: len(shape.leaders) for name, shape in shapes.items()}
        return unknown if access is None else asyncio.run(tell_kind(access, unknown, counts))
    members = tuple(member_of(member) for member in found.members)
    is_streams = found.partition_assignor == _ASSIGNOR_OF_STREAMS if members else None
    kind = _TYPES.get(found.type, GroupType.UNKNOWN)
    return Group(group, kind, found.state.name.lower(), members, commits, is_streams)


def describe_groups(admin: AdminClient, groups: Sequence[str]) -> dict[str, Any]:
    """The library's descriptions; None for a group that it cannot describe, as those of newer protocols, and the
    `ClusterProblem` of one that did not answer.

    The library does not ask again while a coordinator is being made or moves.
    """
    found: dict[str, Any] = {}
    give_up_s = time.monotonic() + _TIMEOUT_S
    while left := [group for group in groups if group not in found]:
        asked = admin.describe_consumer_groups(left, request_timeout=_TIMEOUT_S)
        for group, answer in asked.items():
            try:
                described = _wait(answer, f"describe the group {group}", group)
            except ClusterProblem as reason:
                if _code_of(reason) not in ELSEWHERE_SOON or time.monotonic() >= give_up_s:
                    found[group] = None if _code_of(reason) in _OTHER_KINDS else reason
            else:
                found[group] = None if described.state in _GONE else described
        if len(found) < len(groups):
            time.sleep(_AGAIN_S)
    return found


def _code_of(reason: ClusterProblem) -> int | None:
    """Kafka's own; None where something else went wrong."""
    cause = reason.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def member_of(member: Any) -> Member:
    held: dict[str, set[int]] = {}
    for where in member.assignment.topic_partitions if member.assignment else ():
        held.setdefault(where.topic, set()).add(where.partition)
    return Member(
        member.member_id,
        member.client_id,
        member.host.lstrip("/"),
        member.group_instance_id or None,
        frozenset(held),
        {topic: frozenset(partitions) for topic, partitions in held.items()},
    )


def read_committed(
    properties: Properties,
    group: str,
    keys: Iterable[tuple[str, int]],
    timeout_s: float = _TIMEOUT_S,
    access: ClientAccess | None = None,
    *,
    stable: bool = False,
) -> dict[str, dict[int, Committed]]:
    """What the group committed on these partitions; one without a commit is absent. Raises `ClusterProblem`, also when
    one has no answer. With `stable` that is so as long as a transaction is about to commit there.

    By a consumer that never joins: see `group_offsets` for the reason. Metadata come only with `access`, the same
    properties for other clients: librdkafka 2.16 gives them out together with what lies behind them in its memory.
    """
    if access is not None and not stable:
        return asyncio.run(_commits(access, group, keys, timeout_s))
    wanted = [TopicPartition(topic, partition) for topic, partition in keys]
    found: dict[str, dict[int, Committed]] = {}
    doing = f"read the offsets of group {group}"
    level = "read_committed" if stable else "read_uncommitted"
    consumer = make_consumer(properties, group_id=group, isolation_level=level)
    try:
        for at in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            for where in committed(consumer, wanted[at : at + _PARTITIONS_AT_ONCE], timeout_s):
                if where.error is not None:
                    raise problem(where.error, doing, "Describe", where.topic, group)
                if where.offset >= 0:
                    epoch = where.leader_epoch
                    entry = Committed(where.offset, "", epoch if epoch is not None and epoch >= 0 else None)
                    found.setdefault(where.topic, {})[where.partition] = entry
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    finally:
        consumer.close()
    return found


async def _commits(
    access: ClientAccess, group: str, keys: Iterable[tuple[str, int]], timeout_s: float
) -> dict[str, dict[int, Committed]]:
    wanted: dict[str, list[int]] = {}
    for topic, partition in keys:
        wanted.setdefault(topic, []).append(partition)
    found: dict[str, dict[int, Committed]] = {}
    if wanted:
        doing = f"read the offsets of group {group}"
        async with connected(access, "recoveryd-commits", doing, timeout_s) as client:
            for topic, partition, offset, epoch, metadata in await client.committed(group, wanted):
                entry = Committed(offset, metadata, epoch if epoch >= 0 else None)
                found.setdefault(topic, {})[partition] = entry
    return found


def keys_of(shapes: Mapping[str, TopicShape]) -> list[tuple[str, int]]:
    return [key for shape in shapes.values() for key in shape.keys]


def _wait(answer: Any, doing: str, group: str = "") -> Any:
    try:
        return answer.result(_TIMEOUT_S + 1.0)
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
