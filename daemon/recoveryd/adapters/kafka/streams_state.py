"""What instances of Kafka Streams say of the state on their disks: part of what they sent when they joined.

Applications of the classic protocol say it in the user data of their subscription, in Streams' own form
(`SubscriptionInfo`); those of the `streams` protocol may tell offsets of their tasks to the broker.
"""

import struct
from collections.abc import Iterator
from typing import Final

from recoveryd.adapters.kafka.raw_requests import RawClient
from recoveryd.units.local_state import LocalTask

_UUID_BYTES: Final = 16
_WITH_SUMS, _FLAT = 7, 10  # versions of SubscriptionInfo


async def read_local_state(client: RawClient, group: str) -> list[LocalTask] | None:
    """By instance and task, where it said so; None while there are no members, or they come and go, so that nobody can
    tell yet. Raises `ClusterProblem`.
    """
    listed = await client.listed_group(group)
    if listed is None:
        return None
    kind, _protocol = listed
    if kind == "streams":
        told = await client.streams_group(group)
        if not told.members:
            return None
        return [
            LocalTask(member.client_id, member.host.lstrip("/"), part, partition, offset)
            for member in told.members
            for part, partition, offset in member.local
        ]
    if kind not in {"classic", ""}:
        return []
    state, members = await client.subscriptions(group)
    if state != "Stable":
        return None
    found = []
    for client_id, host, subscription in members:
        for part, partition, offset in offset_sums(subscription):
            found.append(LocalTask(client_id, host.lstrip("/"), str(part), partition, offset))
    return found


def offset_sums(subscription: bytes) -> list[tuple[int, int, int]]:
    """Part, partition and sum of offsets from a member's subscription. Empty for what is not of Streams, or of a
    version that is not known; negative sums are of running tasks, or not known, and are left out.
    """
    try:
        data = _user_data(memoryview(subscription))
        return [(part, p, at) for part, p, at in _sums(data) if at > 0] if data else []
    except (struct.error, IndexError, ValueError):
        return []


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def skip(self, count: int) -> memoryview:
        if count < 0:
            return memoryview(b"")
        if self._at + count > len(self._data):
            raise ValueError("it ends early")
        found = self._data[self._at : self._at + count]
        self._at += count
        return found


def _user_data(subscription: memoryview) -> memoryview:
    """Behind the version and the names of topics."""
    reader = _Reader(subscription)
    reader.take("h")
    for _ in range(reader.take("i")):
        reader.skip(reader.take("h"))
    return reader.skip(reader.take("i"))


def _sums(data: memoryview) -> Iterator[tuple[int, int, int]]:
    reader = _Reader(data)
    version = reader.take("i")
    if version < _WITH_SUMS:
        return
    reader.take("i")  # the latest version that it knows
    reader.skip(_UUID_BYTES)
    reader.skip(reader.take("i"))  # where its queries are answered
    for _ in range(reader.take("i")):
        part = reader.take("i")
        if version >= _FLAT:
            partition, offset = reader.take("i"), reader.take("q")
            reader.skip(reader.take("h"))  # a named topology
            yield part, partition, offset
        else:
            for _ in range(reader.take("i")):
                yield part, reader.take("i"), reader.take("q")
