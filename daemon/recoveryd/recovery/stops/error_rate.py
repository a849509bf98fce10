"""ERROR_RATE: more attempts or chunks fail in an hour than a healthy recovery needs, although each next one gets on a little.

What fails without any progress is ended sooner, by the count in a row. Pure; what is counted is told by `recoveryd.recovery.attempts` (attempts, journaled) and by
heartbeats (chunks that a lane had to do again, since this daemon leads).
"""

from collections.abc import Mapping
from typing import Final

HOUR_MS: Final = 3_600_000


def with_failures(times_ms: tuple[int, ...], count: int, now_ms: int, most: int) -> tuple[int, ...]:
    """`count` more failures, those of the last hour only, and no more than the rule has to tell apart."""
    recent = tuple(t for t in times_ms if now_ms - t < HOUR_MS)
    return (recent + (now_ms,) * min(max(0, count), most))[-most:]


def too_many(
    attempts_ms: tuple[int, ...],
    chunks_ms: Mapping[int, tuple[int, ...]],
    now_ms: int,
    attempts_most: int,
    chunks_most: int,
) -> str | None:
    """Why the recovery is to end, or None. `chunks_ms` are failures by lane: one lane is enough, for the others may wait for it."""
    attempts = sum(1 for t in attempts_ms if now_ms - t < HOUR_MS)
    if attempts >= attempts_most:
        return f"{attempts} attempts failed within an hour, {attempts_most} are too many"
    for lane, times_ms in sorted(chunks_ms.items()):
        chunks = sum(1 for t in times_ms if now_ms - t < HOUR_MS)
        if chunks >= chunks_most:
            return f"{chunks} chunks of lane {lane} failed within an hour, {chunks_most} are too many"
    return None
