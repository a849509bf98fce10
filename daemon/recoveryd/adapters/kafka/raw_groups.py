"""What coordinators of groups are asked through internals of aiokafka: commits, and members of every type of group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.admin import DescribeGroupsRequest_v0

from recoveryd.adapters.kafka.raw_asking import RawAsker, code_of, codes_by_partition
from recoveryd.adapters.kafka.raw_descriptions import DescribeShareGroups, DescribeShareOffsets
from recoveryd.adapters.kafka.raw_forms import (
    CommitOffsets,
    DeleteOffsets,
    DescribeStreamsGroups,
    FetchOffsets,
    ListGroups,
)
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

Commit = tuple[str, int, int, int, str]  # topic, partition, offset, leader epoch (-1 = not known), metadata
Tasks = Sequence[tuple[str, Sequence[int]]]  # sub-topologies with the partitions of their topics

_NO_GROUP: Final = 69
_DEAD: Final = "Dead"  # what older brokers say of a group that does not exist
_CLASSIC: Final = "classic"
_NEWER: Final = frozenset({"streams", "share"})
_NO_GENERATION: Final = -1  # of who is no member
# Illegal generation, unknown member, rebalance in progress, fenced instance, stale member epoch: how a coordinator
# refuses a commit from outside while it has members.
_ALIVE: Final = frozenset({22, 25, 27, 82, 113})


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """`active` are the tasks that it processes now; `local` says of tasks up to which offsets it has their state."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    active: Tasks = ()
    local: Sequence[tuple[str, int, int]] = ()


@dataclass(frozen=True, slots=True)
class StreamsPart:
    """A sub-topology; whole names of topics."""

    id: str
    sources: Sequence[str]
    repartitions_written: Sequence[str]
    changelogs: Sequence[str]
    repartitions_read: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamsGroup:
    state: str
    members: Sequence[StreamsMember]
    parts: Sequence[StreamsPart]


@dataclass(frozen=True, slots=True)
class ShareMember:
    """`held`: partitions by topic."""

    id: str
    client_id: str
    host: str
    topics: Sequence[str]
    held: Mapping[str, Sequence[int]]


class RawGroups(RawAsker):
    """The part of `RawClient` that is about groups."""

    async def delete_offsets(self, group: str, partitions: Mapping[str, Sequence[int]]) -> None:
        """Take the group's commits away; without a group there are none. Raises `ClusterProblem`, also while the group
        has members that read such a topic.
        """
        named = [(topic, list(found)) for topic, found in partitions.items()]
        answer = await self._ask_coordinator(group, DeleteOffsets(group, named), code_of)
        if answer.error_code == _NO_GROUP:
            return
        self._check(answer.error_code, None, f"Delete on Group {group}")
        for topic, found in answer.topics:
            for _partition, error_code in found:
                self._check(error_code, None, f"Read on Topic {topic}")

    async def committed(self, group: str, partitions: Mapping[str, Sequence[int]]) -> Iterable[Commit]:
        """Those of the group. Raises `ClusterProblem`, also when one partition has no answer."""
        named = [(topic, list(found)) for topic, found in partitions.items()]
        answer = await self._ask_coordinator(group, FetchOffsets(group, named), code_of)
        self._check(answer.error_code, None, f"Describe on Group {group}")
        commits = []
        for topic, rows in answer.topics:
            for partition, offset, epoch, metadata, error_code in rows:
                self._check(error_code, None, f"Describe on Topic {topic}")
                if offset >= 0:  # -1 where there is none
                    commits.append((topic, partition, offset, epoch, metadata or ""))
        return commits

    async def commit(self, group: str, commits: Iterable[Commit]) -> None:
        """For a group without members; each commit as `committed` tells it. Raises `ClusterProblem`, with
        `GROUP_NOT_EMPTY` and worth another try where the group has members.
        """
        named: dict[str, list[tuple[int, int, int, str]]] = {}
        for topic, partition, offset, epoch, metadata in commits:
            named.setdefault(topic, []).append((partition, offset, epoch, metadata))
        form = CommitOffsets(group, _NO_GENERATION, "", list(named.items()))
        answer = await self._ask_coordinator(group, form, lambda told: codes_by_partition(told.topics))
        for topic, rows in answer.topics:
            for _partition, error_code in rows:
                if error_code in _ALIVE:
                    raise ClusterProblem(f"the group {group} has members again", code=Code.GROUP_NOT_EMPTY)
                self._check(error_code, None, f"Read on Group {group} and Topic {topic}")

    async def listed_group(self, group: str) -> tuple[str, str] | None:
        """Its type and the protocol of its members, in Kafka's words; None when there is none, or none that the user
        may describe. Raises `ClusterProblem`.
        """
        try:
            answer = await self._ask_coordinator(group, ListGroups([], [], {}), code_of)
        except IncompatibleBrokerVersion:  # before Kafka 3.8
            return await self._described_group(group)
        self._check(answer.error_code, None)
        for name, protocol, _state, kind, _tags in answer.groups or ():
            if name == group:
                return kind, protocol
        return None

    async def _described_group(self, group: str) -> tuple[str, str] | None:
        """As `listed_group`, of brokers that do not list types: there are none but the classic one, whose descriptions
        tell the protocol.
        """
        answer = await self._ask_coordinator(group, DescribeGroupsRequest_v0([group]), _codes_by_group)
        [(error_code, _group, state, protocol, _assignor, _members)] = answer.groups
        if error_code == _NO_GROUP or state == _DEAD:
            return None
        self._check(error_code, None, f"Describe on Group {group}")
        return _CLASSIC, protocol

    async def newer_groups(self) -> dict[str, str]:
        """Groups of share consumers and of the `streams` protocol, which other clients do not list, with that word.
        None on clusters that are too old to have them. Raises `ClusterProblem`.
        """
        found: dict[str, str] = {}
        for broker in self._client.cluster.brokers():
            try:
                answer = await self._ask_broker(broker.nodeId, ListGroups([], [], {}))
            except IncompatibleBrokerVersion:
                continue
            self._check(answer.error_code, None)
            found |= {name: kind for name, _protocol, _state, kind, _tags in answer.groups or () if kind in _NEWER}
        return found

    async def streams_group(self, group: str) -> StreamsGroup:
        """Of the `streams` protocol. Raises `ClusterProblem`."""
        answer = await self._ask_coordinator(group, DescribeStreamsGroups([group], False, {}), _codes_by_group)
        [(error_code, message, _group, state, _epoch, _assigned, topology, members, *_rest)] = answer.groups
        self._check(error_code, message, f"Describe on Group {group}")
        parts = [] if topology is None else topology[1]
        return StreamsGroup(
            state,
            [
                StreamsMember(
                    m[0],
                    m[4],
                    m[5],
                    m[2],
                    [(task[0], task[1]) for task in m[12][0]],
                    tuple((part, partition, offset) for part, partition, offset, _tags in m[10]),
                )
                for m in members
            ],
            [
                StreamsPart(id_, sources, written, [t[0] for t in changelogs], [t[0] for t in read])
                for id_, sources, written, changelogs, read, _tags in parts
            ],
        )

    async def subscriptions(self, group: str) -> tuple[str, Sequence[tuple[str, str, bytes]]]:
        """The state of a group of the classic protocol, and of each member its client id, host, and what it sent when
        it joined. Raises `ClusterProblem`.
        """
        answer = await self._ask_coordinator(group, DescribeGroupsRequest_v0([group]), _codes_by_group)
        [(error_code, _group, state, _kind, _protocol, members)] = answer.groups
        self._check(error_code, None, f"Describe on Group {group}")
        return state, [(client_id, host, sent or b"") for _id, client_id, host, sent, _assigned in members]

    async def share_group(self, group: str) -> tuple[str, Sequence[ShareMember]]:
        """Its state and members. Raises `ClusterProblem`."""
        answer = await self._ask_coordinator(group, DescribeShareGroups([group], False, {}), _codes_by_group)
        [(error_code, message, _group, state, _epoch, _assigned, _assignor, members, *_rest)] = answer.groups
        self._check(error_code, message, f"Describe on Group {group}")
        return state, [
            ShareMember(id_, client, host, topics, {name: found for _id, name, found, _tags in held})
            for id_, _rack, _epoch, client, host, topics, (held, _more), _tags in members
        ]

    async def share_offsets(self, group: str) -> Iterable[tuple[str, int, int]]:
        """Topic, partition and start offset of a share group; partitions without one are left out. Raises
        `ClusterProblem`.
        """
        form = DescribeShareOffsets([(group, None, {})], {})
        answer = await self._ask_coordinator(group, form, lambda told: (row[2] for row in told.groups))
        [(_group, topics, error_code, message, _tags)] = answer.groups
        self._check(error_code, message, f"Describe on Group {group}")
        found = []
        for topic, _id, rows, _more in topics:
            for partition, offset, _epoch, error, error_message, _rest in rows:
                self._check(error, error_message, f"Describe on Topic {topic}")
                if offset >= 0:
                    found.append((topic, partition, offset))
        return found


def _codes_by_group(answer: Any) -> Iterable[int]:
    return (row[0] for row in answer.groups)
