"""Bytes per second of live traffic per budget domain, without what our own replays write: the feed-forward input of the
controller.

Records are counted by log ends (`recoveryd.live.traffic`); bytes are records times the mean record size that a replay
measured or planned with. A topic of unknown record size is left out; a domain of such topics only has no ingress, and
the controller works without it.

Only samples of the same topics, by the same sizes, are compared. A topic that is not looked at any more, or of which a
partition did not answer, would look like less live traffic. Records that turn out to be larger than planned, which is
usual where logs are compressed, would look like more of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from recoveryd.live.events import OffsetsSampled
from recoveryd.live.protecting import INGRESS_POINTS, Ingress, Protecting
from recoveryd.live.traffic import Copied

_OTHER_SIZE: Final = 1.25  # times: a mean that differs by more is another size


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
    grown: dict[str, dict[str, int]] = {}
    sizes: dict[str, dict[str, float]] = {}
    for key, after in traffic.topics.items():
        known = ours.get(key, Copied())
        mean = known.bytes / known.records if known.records else planned_sizes.get(key)
        before = protecting.traffic.topics.get(key)
        if key[0] not in domains or mean is None or before is None or not before.is_settled:
            continue
        if before.topic_id == after.topic_id:
            sizes.setdefault(key[0], {})[key[1]] = mean
            grown.setdefault(key[0], {})[key[1]] = after.counted - before.counted
    ingress = {
        domain: _later(protecting.ingress.get(domain, Ingress()), sizes[domain], more, now_ms)
        for domain, more in grown.items()
    }
    return replace(protecting, traffic=traffic, ingress=ingress)


def _later(ingress: Ingress, sizes: Mapping[str, float], grown: Mapping[str, int], now_ms: int) -> Ingress:
    """`grown`: records by topic since the last sample. Sizes of before go on being used while they are near enough; a
    clock that was set back begins anew.
    """
    if not _are_near(ingress.sizes, sizes) or now_ms < ingress.points[-1][0]:
        return Ingress(((now_ms, 0.0),), sizes, now_ms)
    last_ms, total = ingress.points[-1]
    total += sum(records * ingress.sizes[topic] for topic, records in grown.items())
    kept = ingress.points[:-1] if now_ms == last_ms else ingress.points
    return replace(ingress, points=(*kept, (now_ms, total))[-INGRESS_POINTS:])


def _are_near(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    return before.keys() == now.keys() and all(
        mean <= _OTHER_SIZE * before[topic] and before[topic] <= _OTHER_SIZE * mean for topic, mean in now.items()
    )
