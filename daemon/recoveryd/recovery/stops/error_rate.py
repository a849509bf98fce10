"""ERROR_RATE: too many attempts or chunks fail within an hour, although each new attempt makes a little progress.

Failures without any progress end the recovery sooner, by their number in a row. Pure. Attempts are counted in
`recoveryd.recovery.attempts` and journaled; chunks that a lane had to do again are counted from heartbeats, since this
daemon leads.
"""

from collections.abc import Mapping
from typing import Final

HOUR_MS: Final = 3_600_000


def with_failures(times_ms: tuple[int, ...], count: int, now_ms: int, most: int) -> tuple[int, ...]:
    """The failure times with `count` more: those of the last hour, and no more of them than the rule needs."""
    recent = tuple(t for t in times_ms if now_ms - t < HOUR_MS)
    return (recent + (now_ms,) * min(max(0, count), most))[-most:]


def too_many(
    attempts_ms: tuple[int, ...],
    chunks_ms: Mapping[int, tuple[int, ...]],
    now_ms: int,
    attempts_most: int,
    chunks_most: int,
) -> str | None:
    """Why the recovery must end, or None. `chunks_ms`: failure times of chunks by lane. Each lane is judged alone."""
    attempts = sum(1 for t in attempts_ms if now_ms - t < HOUR_MS)
    if attempts >= attempts_most:
        return f"{attempts} attempts failed within an hour, {attempts_most} are too many"
    for lane, times_ms in sorted(chunks_ms.items()):
        chunks = sum(1 for t in times_ms if now_ms - t < HOUR_MS)
        if chunks >= chunks_most:
            return f"{chunks} chunks of lane {lane} failed within an hour, {chunks_most} are too many"
    return None
