"""Names of the steps of an upgrade, apart from those that other workflows have too."""

from typing import Final

CONFIRM: Final = "confirm_compatibility"
STOP_NEW, EMPTY_AGAIN, START_OLD = "stop_new_version", "await_empty_again", "start_old_version"
PUT_BACK_LOST: Final = "put_back_lost_offsets"

START_BESIDE, READY, LOOK_BESIDE = "start_beside", "await_ready", "look_beside"
STOP_BESIDE, EMPTY_BESIDE, NOTE_BESIDE, OLD_THERE = (
    "stop_beside", "await_beside_empty", "snapshot_beside", "await_old_version_there"
)  # fmt: skip
CREATE_TAIL, COPY_TAIL, NOTE_TAIL, SET_TAIL, START_TAIL, READ_TAIL, STOP_TAIL, EMPTY_TAIL, DELETE_TAIL = (
    "create_tail", "copy_tail", "snapshot_tail", "set_tail_offsets", "start_on_tail", "await_tail_read", "stop_on_tail",
    "await_tail_empty", "delete_tail",
)  # fmt: skip
LOOK_TAIL, NOBODY_AFTER = "look_at_tail", "await_nobody_on_tail"
TAIL: Final = frozenset(
    {CREATE_TAIL, COPY_TAIL, NOTE_TAIL, SET_TAIL, START_TAIL, READ_TAIL, STOP_TAIL, EMPTY_TAIL, DELETE_TAIL}
)
COMPARE: Final = "compare_offsets"
COMPARE_AGAIN: Final = "compare_offsets_again"
