"""The tasks of a verification are judged like lanes: one that fell silent, or hears no directives, costs the attempt
while the others go on, and so does a proof that stands still. The next attempt begins it anew.

The copy is whole by then, so one attempt that hangs is no reason to end the recovery. A proof that stalls twice in a
row, the second time no further than the first, ends it, and so do as many lost attempts as end a copy: of a proof none
counts as progress, since each begins anew. A task that was never heard may wait for a free slot of Spark, as long as
others are heard.
"""

from recoveryd.recovery.lane_shares import reader_shares
from recoveryd.recovery.lane_trouble import MISSING, SAYING_MS, STALLED, LaneTrouble, silent_or_deaf, slow_ms
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params


def proof_trouble(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> LaneTrouble | None:
    """The first task that is in trouble, or the proof as a whole; None if nothing is wrong, or if the whole application
    is silent, which is not judged here.
    """
    if now_ms - seen.heard_ms > params.heartbeat_timeout_ms:
        return None
    for _, heard in sorted(seen.readers.items()):
        if found := silent_or_deaf(heard, "task", now_ms, params):
            return found
    return _stalled(recovery, seen, now_ms, params) if seen.readers else _none(recovery, seen, now_ms, params)


def _none(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> LaneTrouble | None:
    """The driver sends heartbeats but no task starts, or none of them was heard since the daemon began to lead."""
    waited_ms = now_ms - max(recovery.attempt.started_at_ms, seen.adopted_ms, seen.progress_ms)
    if waited_ms <= params.stall_after_ms:
        return None
    return LaneTrouble(None, MISSING, f"no task of the verification was heard in {waited_ms / 60_000:.0f} min")


def _stalled(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> LaneTrouble | None:
    """It read and compared nothing for long. What waits for a transaction of others, or for a silent broker, says so
    itself after `attempts.stop_wait`; and that says more.
    """
    idle_ms = seen.idle_ms(now_ms)
    if idle_ms < params.stall_after_ms + SAYING_MS:
        return None
    slow = slow_ms(recovery, reader_shares(seen).values(), params)
    if idle_ms < max(params.stall_after_ms, params.stop_wait_ms, slow) + SAYING_MS:
        return None
    done, whole = recovery.progress.verified_offsets, recovery.progress.offsets_to_verify
    why = f"the verification read and compared nothing for {idle_ms / 60_000:.0f} min, at {done:,} of {whole:,} offsets"
    return LaneTrouble(None, STALLED, why, done)
