"""Which part of a range lies in remote storage (Kafka's tiered storage): it is read more slowly,
and often costs money.
"""

from collections.abc import Collection, Sequence

from recoveryd.recovery.model import Finding, Plan, RemoteRange, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.pinning import listed
from recoveryd.recovery.plan_facts import PlanFacts


def remote_ranges(plan: Plan, facts: PlanFacts) -> tuple[RemoteRange, ...]:
    """Per partition, of one with a remote part."""
    local = {p.partition: p.local_start for p in facts.source_partitions}
    ranges = []
    for planned in plan.partitions:
        local_start = local.get(planned.partition)
        if local_start is None:
            continue
        stop = local_start if planned.stop is None else min(planned.stop, local_start)
        if stop > planned.start:
            ranges.append(RemoteRange(planned.partition, planned.start, stop))
    return tuple(ranges)


def remote_findings(
    ranges: Sequence[RemoteRange], facts: PlanFacts, params: Params, planned: Collection[int]
) -> list[Finding]:
    """`planned`: the partitions that are copied."""
    if facts.source is None or not facts.source.is_remote:
        return []
    untold = _untold(facts, planned)
    if not ranges:
        return untold
    offsets = sum(each.stop - each.start for each in ranges)
    first = ranges[0]
    more = f" and of {len(ranges) - 1} more partitions" if len(ranges) > 1 else ""
    text = (
        f"{offsets:,} offsets lie in remote storage, [{first.start:,}, {first.stop:,}) of partition {first.partition}{more}: "
        f"no more than {params.remote_bytes_per_s:,.0f} B/s are expected of them (rates.remote_bytes_per_s)"
    )
    return [*untold, Finding("source_remote", Severity.INFO, text)]


def _untold(facts: PlanFacts, planned: Collection[int]) -> list[Finding]:
    """Where the leader of a partition did not say."""
    silent = [p.partition for p in facts.source_partitions if p.local_start is None and p.partition in planned]
    if not silent:
        return []
    of = "it" if len(silent) == len(planned) else f"partition {listed(silent)}"
    text = f"the source has remote storage, and the cluster did not say which part of {of} lies there"
    return [Finding("source_remote_unknown", Severity.WARN, text)]
