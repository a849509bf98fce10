"""Which consumer groups of a cluster read a topic: those with members on it, and those with offsets there.

Every plan of a copy to a topic that exists asks this, so it is cheap: one connection for the offsets of all groups, and
one deadline for everything. What was not told in that time is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.group_facts import describe_groups, list_groups, member_of
from recoveryd.adapters.kafka.raw_requests import RawClient, connected
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess

_ASKED_MOST: Final = 500
_DESCRIBED_AT_ONCE: Final = 100
_DEADLINE_S: Final = 8.0
Readers = tuple[tuple[str, ...], tuple[str, ...]]


async def read_readers(
    admin: AdminClient, access: ClientAccess, workers: Workers, topic: str, partitions: Sequence[int]
) -> Readers:
    """Groups by name, and sentences about what was not told. Raises nothing of the cluster's."""
    problems: list[str] = []
    found: set[str] = set()
    try:
        listed, untold = await workers.run(list_groups, admin)
        problems += untold
        async with connected(access, "recoveryd-readers", f"ask who reads {topic}", _DEADLINE_S) as client:
            newer = await client.newer_groups()
            groups = sorted({*listed, *newer})
            if len(groups) > _ASKED_MOST:
                problems.append(f"of {len(groups)} groups only {_ASKED_MOST} were asked whether they read {topic}")
            asked = groups[:_ASKED_MOST]
            found |= await _with_offsets(client, asked, newer, topic, partitions, problems)
        left = [group for group in asked if group not in found and group not in newer]
        with_members, silent = await workers.run(_with_members, admin, left, topic)
        found |= with_members
        problems += _untold(silent, f"whether their members read {topic}")
    except ClusterProblem as reason:
        problems.append(f"not all groups told whether they read {topic}: {reason.message}")
    return tuple(sorted(found)), tuple(problems)


async def _with_offsets(
    client: RawClient,
    groups: Iterable[str],
    newer: Mapping[str, str],
    topic: str,
    partitions: Sequence[int],
    problems: list[str],
) -> set[str]:
    found: set[str] = set()
    silent: dict[str, str] = {}
    for group in groups:
        try:
            if newer.get(group) == "share":
                is_reader = any(name == topic for name, _, _ in await client.share_offsets(group))
            else:
                is_reader = bool(list(await client.committed(group, {topic: partitions})))
        except ClusterProblem as reason:
            silent[group] = reason.message
            continue
        if is_reader:
            found.add(group)
    problems += _untold(silent, f"whether they read {topic}")
    return found


def _with_members(admin: AdminClient, groups: Sequence[str], topic: str) -> tuple[set[str], dict[str, str]]:
    """Those with a member on the topic, and why others did not tell."""
    found: set[str] = set()
    silent: dict[str, str] = {}
    for at in range(0, len(groups), _DESCRIBED_AT_ONCE):
        for group, told in describe_groups(admin, groups[at : at + _DESCRIBED_AT_ONCE]).items():
            if isinstance(told, ClusterProblem):
                silent[group] = told.message
            elif told is not None and any(topic in member_of(member).topics for member in told.members):
                found.add(group)
    return found, silent


def _untold(silent: Mapping[str, str], what: str) -> tuple[str, ...]:
    """The sentence about groups that did not tell; `silent` has the reason of each."""
    if not silent:
        return ()
    group, why = next(iter(silent.items()))
    return (f"{len(silent)} groups did not tell {what}, the first is {group}: {why}",)
