"""State that an application brought along on its disks, as its members say it when they join."""

import struct
from collections.abc import Sequence

import pytest

from recoveryd.adapters.kafka.streams_state import offset_sums
from recoveryd.units.local_state import LocalTask, find_stale

Sums = Sequence[tuple[int, int, int]]


def subscription(version: int, sums: Sums) -> bytes:
    """What a member of Streams sends when it joins: its topics, and behind them what Streams says to itself."""
    data = struct.pack(">ii", version, 11) + bytes(16) + struct.pack(">i", 4) + b"host" + struct.pack(">i", len(sums))
    for part, partition, offset in sums:
        if version >= 10:
            data += struct.pack(">iiqh", part, partition, offset, -1)
        else:
            data += struct.pack(">iiiq", part, 1, partition, offset)
    topics = struct.pack(">h", 1) + struct.pack(">i", 1) + struct.pack(">h", 2) + b"in"
    return topics + struct.pack(">i", len(data)) + data + b"and what later versions add"


@pytest.mark.parametrize("version", [7, 9, 10, 11])
def test_sums_of_offsets_are_read_in_each_form(version: int) -> None:
    assert offset_sums(subscription(version, [(0, 0, 50), (1, 3, 7)])) == [(0, 0, 50), (1, 3, 7)]


def test_running_tasks_and_unknown_sums_say_nothing_of_the_disk() -> None:
    assert offset_sums(subscription(11, [(0, 0, -2), (0, 1, -3), (0, 2, 0), (0, 3, 1)])) == [(0, 3, 1)]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x00",
        struct.pack(">hii", 1, 0, -1),  # no user data, as of a plain consumer
        subscription(6, [(0, 0, 50)]),
        subscription(11, [(0, 0, 50)])[:40],
        struct.pack(">hii", 1, 0, 5) + b"other",
    ],
)
def test_what_is_not_of_streams_or_cut_off_tells_nothing(sent: bytes) -> None:
    assert offset_sums(sent) == []


def test_state_beyond_the_end_of_the_changelogs_is_of_an_earlier_run() -> None:
    tasks = [LocalTask("app-1", "web1", "0", 0, 50), LocalTask("app-1", "web1", "1", 1, 20)]
    ends = {"app-a-changelog": {0: 5, 1: 5}, "app-b-changelog": {0: 4, 1: 15}}
    [stale] = find_stale(tasks, ends)
    assert str(stale) == "app-1 on web1 has state of task 0_0 up to offset 50, and its changelogs end at 9"
    assert len(find_stale(tasks, {})) == 2
    assert find_stale([], ends) == []
