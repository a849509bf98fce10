"""Whether the held topics exist. A misspelt name protects nothing, so the hold says so itself, and goes on: the topic
may be one that nobody shall create.
"""

from recoveryd.holds.draft import HoldDraft
from recoveryd.kernel.noun import changed
from recoveryd.live.events import OffsetsSampled


def on_offsets_of_held(draft: HoldDraft, event: OffsetsSampled) -> None:
    if not draft.holds.live:
        return
    gone = frozenset(event.missing)
    there = {(sample.cluster, sample.topic) for sample in event.topics}
    for hold in list(draft.holds.live.values()):
        missing = tuple(
            topic
            for topic in hold.topics
            if (hold.cluster, topic) in gone or (topic in hold.missing and (hold.cluster, topic) not in there)
        )
        if missing == hold.missing:
            continue
        by = f"{', '.join(hold.topics)} held by {hold.owner}: {hold.command.reason}"
        why = f"{by}; there is no topic {', '.join(missing)}" if missing else by
        draft.put_hold(changed(hold, draft.now_ms, missing=missing, why=why))
        draft.notice("hold_topics_seen", hold.id, {"why": why, "missing": list(missing)})
        draft.reason = why
