"""How much our own copies read and wrote of each topic, to tell live traffic from replays."""

from collections.abc import Iterable, Mapping

from recoveryd.live.events import OffsetsSampled
from recoveryd.live.ingress import with_offsets
from recoveryd.live.slice import Topic
from recoveryd.live.traffic import Copied
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.recoveries import Recoveries, copied_by


def copied_by_all(recoveries: Recoveries) -> Mapping[Topic, Copied]:
    """By topic: what live recoveries and those that ended have copied."""
    found = copied_by(recoveries.live.values())
    for topic, ended in recoveries.totals.copied.items():
        found[topic] = found.get(topic, Copied()).plus(ended)
    return found


def tell_ingress(draft: RecoveryDraft, event: OffsetsSampled) -> None:
    """Update how much producers of live traffic write in the protected domains."""
    live = draft.protection
    if live.params.domains:
        ours, sizes = copied_by_all(draft.stored), _planned_sizes(draft.stored.live.values())
        live.protecting = with_offsets(
            live.protecting, event, ours, sizes, draft.now_ms, frozenset(live.params.domains)
        )


def _planned_sizes(recoveries: Iterable[Recovery]) -> dict[Topic, float]:
    """Mean size of a record in bytes by source topic, as found by planning."""
    sizes: dict[Topic, float] = {}
    for recovery in recoveries:
        plan = recovery.plan
        if plan is not None and plan.records_at_most > 0 and plan.bytes_at_most > 0:
            sizes[plan.source.cluster, plan.source.topic] = plan.bytes_at_most / plan.records_at_most
    return sizes
