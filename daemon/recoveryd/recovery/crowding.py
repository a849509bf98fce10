"""Whether what a recovery moves is spread over the brokers of a cluster, or crowds on few of them.

A budget is one of a domain, but what hurts live traffic is the load of each broker. So a recovery counts by its busiest broker: where that leads three times
its even part of what is still to copy, each byte counts three times, and no broker gets more than an even part of the budget. Leaders are known from the
samples of all topics in play; where they are not, bytes count once.
"""

from collections import Counter
from collections.abc import Mapping

from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import PlannedTopic, Recovery

_FOLLOWED = 1  # what is left of a partition that is followed has no size


def crowding(draft: RecoveryDraft, recovery: Recovery, cluster: str) -> float:
    """How many times an even part of what the recovery copies passes the busiest broker of the cluster; at least 1, which is also not known."""
    plan = recovery.plan
    if plan is None or not recovery.spec.copies or recovery.is_proving:
        return 1.0
    rows = recovery.progress.partitions
    left = {p.partition: _FOLLOWED if p.stop is None else max(0, p.stop - p.position) for p in rows}
    brokers = _brokers(draft, cluster)
    read = _most_on_one(_leaders(draft, plan.source), left) if plan.source.cluster == cluster else 0.0
    written = 0.0
    if plan.target.cluster == cluster:
        leaders = _leaders(draft, plan.target)
        is_hashed = recovery.spec.target.mapping == "key_hash"
        written = _most_on_one(leaders, dict.fromkeys(leaders, 1) if is_hashed else left)
    return max(1.0, len(brokers) * max(read, written))


def _leaders(draft: RecoveryDraft, topic: PlannedTopic) -> Mapping[int, int]:
    newest = draft.history((topic.cluster, topic.topic)).samples[-1:]
    return newest[0].leaders if newest else {}


def _brokers(draft: RecoveryDraft, cluster: str) -> set[int]:
    """Those that lead anything that was looked at."""
    newest = draft.protection.newest_of(cluster)
    return {broker for sample in newest for broker in sample.leaders.values() if broker >= 0}


def _most_on_one(leaders: Mapping[int, int], left: Mapping[int, int]) -> float:
    """The largest part of `left` with one leader; 0 while a leader is not known."""
    load: Counter[int] = Counter()
    for partition, size in left.items():
        if size and leaders.get(partition, -1) < 0:
            return 0.0
        load[leaders.get(partition, -1)] += size
    whole = sum(load.values())
    return max(load.values()) / whole if whole else 0.0
