"""How topics are let go: by a command, or when the hold expires. Each is told once."""

from collections.abc import Collection

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.model import Hold
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import State, Stop, StopReason


def let_go(draft: HoldDraft, hold: Hold, topics: Collection[str], who: str) -> None:
    """Let go of some of its topics; of the last ones, the hold ends."""
    left = tuple(topic for topic in hold.topics if topic not in topics)
    if not left:
        end(draft, hold, State.COMPLETED, StopReason.OPERATOR, f"released by {who}")
        return
    gone = tuple(topic for topic in hold.topics if topic in topics)
    why = f"{', '.join(gone)} released by {who}; {', '.join(left)} still held"
    missing = tuple(topic for topic in hold.missing if topic in left)
    released = (*hold.released, *gone)
    draft.put_hold(changed(hold, draft.now_ms, topics=left, released=released, missing=missing, why=why))
    draft.notice("hold_narrowed", hold.id, {"why": why, "released": list(gone), "topics": list(left)})
    draft.reason = why


def end(draft: HoldDraft, hold: Hold, state: State, reason: StopReason, why: str) -> None:
    """Into a terminal state: its topics are free, as far as no other hold has them."""
    stop = Stop(reason, None, draft.now_ms, {"held_ms": draft.now_ms - hold.created_ms})
    draft.put_hold(changed(hold, draft.now_ms, state=state, why=why, stop=stop))
    told = {
        "from": hold.state.value,
        "to": state.value,
        "why": why,
        "cluster": hold.cluster,
        "topics": list(hold.topics),
        "held_ms": draft.now_ms - hold.created_ms,
    }
    draft.notice(f"hold_{state.value}", hold.id, told)
    draft.reason = why


def expire(draft: HoldDraft) -> None:
    """End the holds whose time has come, also while a release may lie unread: a topic is not held for longer than was
    said, and no command makes that longer.
    """
    unless = "nobody released it before" if draft.has_read else "no release was read before"
    for hold in list(draft.holds.live.values()):
        if hold.expires_ms is not None and draft.now_ms >= hold.expires_ms:
            end(draft, hold, State.EXPIRED, StopReason.DEADLINE, f"its time is over: {unless}")
