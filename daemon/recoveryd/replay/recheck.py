"""Whether the plan of a replay that waited for approval still fits its topics: checked right before the start. The
refusal names what has changed.

Pure: an adapter gathered the facts again. They are compared with what the plan pinned; nothing is pinned anew.
"""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.model import Plan, PlannedPartition, Severity
from recoveryd.recovery.pinning import cut_back
from recoveryd.recovery.plan_facts import PartitionFacts, PlanFacts, TopicFacts
from recoveryd.recovery.recheck import changed_source, changed_target
from recoveryd.recovery.spec import AtOffsets
from recoveryd.replay.plan import ERROR_CODES, held_records
from recoveryd.replay.preflight import inspect_target
from recoveryd.replay.spec import ReplaySpec


def stale(plan: Plan, spec: ReplaySpec, facts: PlanFacts) -> Refused | None:
    """A refusal that names the first thing that is not as planned, or None. The target is checked most closely, because
    it is written.
    """
    refused = changed_source(plan, facts)
    if refused is not None:
        return refused
    found = {p.partition: p for p in facts.source_partitions}
    for planned in plan.partitions:
        now = found.get(planned.partition)
        if now is not None and (why := cut_back(spec.source.start, planned.start, now)):
            return Refused(Code.SOURCE_CUT_BACK, why)
        why = _range(plan, spec, planned, now)
        if why:
            # Who goes on where another copy ended does not pass over this: what is there now is not what was.
            goes_on = isinstance(spec.source.start, AtOffsets) and spec.source.start.topic_id != ""
            is_cut_back = now is not None and now.high_watermark < _end(planned)
            return Refused(Code.SOURCE_CUT_BACK if goes_on and is_cut_back else Code.STALE_PLAN, why)
    return _target(plan, spec, facts)


def _range(plan: Plan, spec: ReplaySpec, planned: PlannedPartition, found: PartitionFacts | None) -> str:
    where = f"partition {planned.partition} of {plan.source.topic}"
    if found is None:
        return f"{where} is not there any more"
    if found.log_start > planned.start and spec.on_data_loss == "fail":
        return f"{where} begins at {found.log_start} now, the plan at {planned.start}: records of the range are gone"
    if found.high_watermark < _end(planned):
        return f"{where} ends at {found.high_watermark} now, the plan saw {_end(planned)}: the log was cut back"
    return ""


def _end(planned: PlannedPartition) -> int:
    return planned.high_watermark if planned.stop is None else planned.stop


def _target(plan: Plan, spec: ReplaySpec, facts: PlanFacts) -> Refused | None:
    target, topic = facts.target, plan.target.topic
    if target is None:
        if plan.create_target and not plan.target.topic_id:
            return None
        return Refused(Code.STALE_PLAN, f"the target topic {topic} does not exist any more")
    why = changed_target(plan, target)
    if why:
        return Refused(Code.STALE_PLAN, why)
    held = held_records(spec, plan.partitions, target) or _written_since(plan, spec, target)
    if held:
        return Refused(Code.TARGET_NOT_EMPTY, held)
    for finding in inspect_target(spec, facts):
        if finding.severity is Severity.ERROR:
            return Refused(ERROR_CODES.get(finding.code, Code.TARGET_LIMITS), finding.message)
    return None


def _written_since(plan: Plan, spec: ReplaySpec, target: TopicFacts) -> str:
    """Which records came to the target since the plan, or "". Without `append` the proof would count them as extra,
    also in partitions to which the copy does not write.
    """
    if spec.appends:
        return ""
    planned = dict(plan.target_starts)
    for partition, end in sorted(target.ends.items()):
        more = end - planned.get(partition, 0)
        if more > 0:
            return f"partition {partition} of {target.topic} got up to {more} records since the plan was made"
    return ""
