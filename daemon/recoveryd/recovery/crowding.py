"""Whether a recovery's traffic is spread over the brokers of a cluster, or crowds on a few of them.

A budget is shared by a domain, but what hurts live traffic is the load of a single broker. So a recovery counts by its
busiest broker: if that one leads three times its even part of what is still to copy, each byte counts three times, and
no broker gets more than an even part of the budget. Leaders are known from the samples of all topics in use; a
partition without a leader may get one on the busiest broker, and of a topic that was never sampled each byte counts
once. A proof reads all that was copied, on both sides.
"""

from collections import Counter
from collections.abc import Mapping

from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import Recovery

_FOLLOWED = 1  # weight of a followed partition, of which nobody knows how much is left


def crowding(draft: RecoveryDraft, recovery: Recovery, cluster: str) -> float:
    """The load of the cluster's busiest broker, as a multiple of an even part of what the recovery copies; at least 1,
    also when not known.
    """
    plan = recovery.plan
    if plan is None or not (recovery.brings_records or recovery.is_proving):
        return 1.0
    rows = recovery.progress.partitions
    if recovery.is_proving:
        left = {p.partition: p.copied for p in rows}
    else:
        left = {p.partition: _FOLLOWED if p.stop is None else max(0, p.stop - p.position) for p in rows}
    read = _most_on_one(draft.leaders(plan.source), left) if plan.source.cluster == cluster else 0.0
    written = 0.0
    if plan.target.cluster == cluster:
        leaders = draft.leaders(plan.target)
        is_hashed = recovery.spec.target.mapping == "key_hash"
        written = _most_on_one(leaders, dict.fromkeys(leaders, 1) if is_hashed else left)
    return max(1.0, len(draft.protection.brokers_of(cluster)) * max(read, written))


def _most_on_one(leaders: Mapping[int, int], left: Mapping[int, int]) -> float:
    """The largest part of `left` that one broker may lead; 0 where the topic was never sampled, or nothing is left."""
    if not leaders:
        return 0.0
    load: Counter[int] = Counter()
    for partition, size in left.items():
        load[max(-1, leaders.get(partition, -1))] += size
    unknown, whole = load.pop(-1, 0), sum(load.values())
    return (max(load.values(), default=0) + unknown) / (whole + unknown) if whole + unknown else 0.0
