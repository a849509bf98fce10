"""Each way to say where a group shall stand, on a partition [10, 100) where it is at 50."""

from dataclasses import replace

import pytest

from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    Current,
    NewPosition,
    OnNoRecord,
    OnOutOfRange,
    PartitionLook,
    PositionRefused,
    Shift,
    To,
    resolve,
)

LOOK = PartitionLook("orders", 1, 10, 100, 50, 70)
BARE = replace(LOOK, committed=None, at_time=None)
FAIL, CLAMP = OnOutOfRange.FAIL, OnOutOfRange.CLAMP
REFUSE, AT_END = OnNoRecord.FAIL, OnNoRecord.AT_END


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        (Earliest(), 10),
        (Latest(), 100),
        (Current(), 50),
        (AtOffset(10), 10),
        (AtOffset(99), 99),
        (AtOffset(100), 100),
        (AtTopicOffsets({"orders": {1: 43}, "other": {1: 5}}), 43),
        (AtTopicOffsets({"other": {1: 5}}), None),
        (AtTime(1), 70),
        (Shift(0), 50),
        (Shift(-40), 10),
        (Shift(50), 100),
    ],
)
def test_a_position_inside_the_log_is_taken_as_it_is_asked_for(to: To, offset: int | None) -> None:
    assert resolve(to, LOOK, FAIL, REFUSE) == NewPosition("orders", 1, offset, at_end=offset == 100)


@pytest.mark.parametrize(
    ("to", "offset", "nearest"),
    [(AtOffset(9), 9, 10), (AtOffset(101), 101, 100), (Shift(-41), 9, 10), (Shift(51), 101, 100)],
)
def test_a_position_outside_the_log_is_refused_and_only_on_request_moved(to: To, offset: int, nearest: int) -> None:
    with pytest.raises(
        PositionRefused, match=rf"orders 1: offset {offset} lies outside the log, which has \[10, 100\)"
    ):
        resolve(to, LOOK, FAIL, REFUSE)
    moved = resolve(to, LOOK, CLAMP, REFUSE)
    assert (moved.offset, moved.at_end) == (nearest, nearest == 100)
    assert moved.note.endswith(f"set to {nearest}")


def test_a_time_that_no_record_reaches_is_refused_and_only_on_request_the_end() -> None:
    with pytest.raises(PositionRefused, match="orders 1: no record is that new"):
        resolve(AtTime(1), BARE, FAIL, REFUSE)
    assert resolve(AtTime(1), BARE, FAIL, AT_END) == NewPosition(
        "orders", 1, 100, at_end=True, note="orders 1: no record is that new, set to its end"
    )


def test_where_nothing_is_committed_current_leaves_it_and_a_shift_is_refused() -> None:
    left = resolve(Current(), BARE, FAIL, REFUSE)
    assert (left.offset, left.note) == (None, "orders 1: nothing is committed, it is left alone")
    with pytest.raises(PositionRefused, match="nothing to shift from"):
        resolve(Shift(1), BARE, FAIL, REFUSE)


@pytest.mark.parametrize("to", [Earliest(), Latest(), AtOffset(100)])
def test_an_empty_partition_has_one_position(to: To) -> None:
    empty = PartitionLook("orders", 0, 100, 100)
    assert resolve(to, empty, FAIL, REFUSE).offset == 100
    assert resolve(to, empty, FAIL, REFUSE).at_end
