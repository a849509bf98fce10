"""Bytes per second of live traffic per budget domain, without what our own replays write: the feed-forward input of the
controller.

Records are counted by log ends (`recoveryd.live.traffic`); bytes are records times the mean record size that a replay
measured or planned with. A topic of unknown record size is left out; a domain of such topics only has no ingress, and
the controller works without it. Only samples of the same topics are compared: a topic that is not looked at any more, or
of which a partition did not answer, would look like less live traffic, and one whose records turn out to be larger than
planned, which is usual where logs are compressed, like more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from recoveryd.live.events import OffsetsSampled
from recoveryd.live.protecting import Ingress, Protecting
from recoveryd.live.traffic import Copied

_POINTS: Final = 4


def with_offsets(
    protecting: Protecting,
    sampled: OffsetsSampled,
    ours: Mapping[tuple[str, str], Copied],
    planned_sizes: Mapping[tuple[str, str], float],
    now_ms: int,
    domains: frozenset[str],
) -> Protecting:
    """The live traffic of the domains after this sample. `ours`: what replays copied. `planned_sizes`: bytes per record
    of topics where nothing was copied yet.
    """
    traffic, _ = protecting.traffic.with_sample(sampled, ours, now_ms)
    grown: dict[str, float] = {}
    topics: dict[str, set[tuple[str, bool]]] = {}
    for key, after in traffic.topics.items():
        known = ours.get(key, Copied())
        mean = known.bytes / known.records if known.records else planned_sizes.get(key)
        before = protecting.traffic.topics.get(key)
        if key[0] not in domains or mean is None or before is None or not before.is_settled:
            continue
        if before.topic_id == after.topic_id:
            topics.setdefault(key[0], set()).add((key[1], known.records > 0))
            grown[key[0]] = grown.get(key[0], 0.0) + (after.counted - before.counted) * mean
    ingress = {
        domain: _later(protecting.ingress.get(domain, Ingress()), frozenset(topics[domain]), now_ms, more)
        for domain, more in grown.items()
    }
    return replace(protecting, traffic=traffic, ingress=ingress)


def _later(ingress: Ingress, topics: frozenset[tuple[str, bool]], now_ms: int, more: float) -> Ingress:
    if topics != ingress.topics:
        return Ingress(((now_ms, more),), topics, now_ms)
    last_ms, total = ingress.points[-1]
    kept = ingress.points[:-1] if now_ms <= last_ms else ingress.points
    return replace(ingress, points=(*kept, (max(now_ms, last_ms), total + more))[-_POINTS:])
