"""Bytes per second of live traffic per budget domain, without what our own replays write: the feed-forward of the controller.

Records are known from log ends (`daemon.core.live_traffic`), bytes by the mean record size that a replay measured or planned with. A topic whose record size
nobody knows is left out; a domain in which none is known has no ingress, and the controller then does without.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from daemon.core.decision import CoreState
from daemon.core.events import OffsetsSampled
from daemon.core.model import Recovery
from daemon.core.protecting import Ingress, Protecting
from daemon.core.recoveries import Copied, copied_by

_POINTS: Final = 4


def with_offsets(
    protecting: Protecting, sampled: OffsetsSampled, state: CoreState, now_ms: int, domains: frozenset[str]
) -> Protecting:
    """The live traffic of the domains as of this look."""
    traffic, _ = protecting.traffic.with_sample(sampled, state, now_ms)
    live = state.recoveries.live.values()
    copied, planned = copied_by(live), _planned_sizes(live)
    grown: dict[str, float] = {}
    for key, after in traffic.topics.items():
        ended = state.recoveries.totals.copied.get(key, Copied())
        known = copied.get(key, Copied()).plus(ended)
        mean = known.bytes / known.records if known.records else planned.get(key)
        if key[0] not in domains or mean is None:
            continue
        before = protecting.traffic.topics.get(key)
        is_same = before is not None and before.topic_id == after.topic_id
        more = (after.counted - before.counted) * mean if before is not None and is_same else 0.0
        grown[key[0]] = grown.get(key[0], 0.0) + more
    ingress = {
        domain: _later(protecting.ingress.get(domain, Ingress()), now_ms, more) for domain, more in grown.items()
    }
    return replace(protecting, traffic=traffic, ingress=ingress)


def _later(ingress: Ingress, now_ms: int, more: float) -> Ingress:
    points = ingress.points
    total = points[-1][1] if points else 0.0
    if points and now_ms <= points[-1][0]:
        return Ingress((*points[:-1], (points[-1][0], total + more)))
    return Ingress((*points, (now_ms, total + more))[-_POINTS:])


def _planned_sizes(recoveries: Iterable[Recovery]) -> dict[tuple[str, str], float]:
    """Mean bytes of a record of a source topic, as planning found it."""
    sizes: dict[tuple[str, str], float] = {}
    for recovery in recoveries:
        plan = recovery.plan
        if plan is not None and plan.records_at_most > 0 and plan.bytes_at_most > 0:
            sizes[plan.source.cluster, plan.source.topic] = plan.bytes_at_most / plan.records_at_most
    return sizes
