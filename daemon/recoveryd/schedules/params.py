"""Numbers that schedules use. Frozen for the life of a daemon; every default is the documented one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScheduleParams:
    """`send_again_ms`: how long to wait for a command that was sent before it is sent once more."""

    send_again_ms: int = 10_000
    keep_terminal_ms: int = 90 * 86_400_000
    keep_terminal_most: int = 1_000
