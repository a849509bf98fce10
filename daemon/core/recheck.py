"""Whether a plan that waited for a person still describes the world: asked again right before it starts, and refused by name when it does not.

Pure: the facts were gathered again by an adapter. What the plan pinned is compared, nothing is pinned anew.
"""

from daemon.core.catalogue import Code
from daemon.core.commands import ReplaySpec, Spec
from daemon.core.model import Plan, PlannedPartition, Severity
from daemon.core.pinning import Refused
from daemon.core.plan import ERROR_CODES, held_records
from daemon.core.plan_facts import PartitionFacts, PlanFacts, TopicFacts
from daemon.core.preflight import inspect_target


def stale(plan: Plan, spec: Spec, facts: PlanFacts) -> Refused | None:
    """The first thing that is not as planned, or None. What is only read must be the same topics; what is written is looked at closely."""
    source = facts.source
    if source is None:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topic {plan.source.topic} does not exist any more")
    if source.topic_id != plan.source.topic_id:
        return Refused(Code.STALE_PLAN, _made_again(plan.source.topic, plan.source.topic_id, source.topic_id))
    if not isinstance(spec, ReplaySpec):
        why = _grown(plan, spec, source) or _compared(plan, facts.target)
        return Refused(Code.STALE_PLAN, why) if why else None
    found = {p.partition: p for p in facts.source_partitions}
    for planned in plan.partitions:
        why = _range(plan, spec, planned, found.get(planned.partition))
        if why:
            return Refused(Code.STALE_PLAN, why)
    return _target(plan, spec, facts)


def _grown(plan: Plan, spec: Spec, source: TopicFacts) -> str:
    """A verification of the whole topic would say nothing of partitions that were added since."""
    if spec.source.partitions is not None or source.partitions == plan.source.partitions:
        return ""
    return f"topic {source.topic} has {source.partitions} partitions, planned were {plan.source.partitions}"


def _compared(plan: Plan, target: TopicFacts | None) -> str:
    return f"topic {plan.target.topic} does not exist any more" if target is None else _changed(plan, target)


def _range(plan: Plan, spec: ReplaySpec, planned: PlannedPartition, found: PartitionFacts | None) -> str:
    where = f"partition {planned.partition} of {plan.source.topic}"
    if found is None:
        return f"{where} is not there any more"
    if found.log_start > planned.start and spec.on_data_loss == "fail":
        return f"{where} begins at {found.log_start} now, the plan at {planned.start}: records of the range are gone"
    end = planned.high_watermark if planned.stop is None else planned.stop
    if found.high_watermark < end:
        return f"{where} ends at {found.high_watermark} now, the plan saw {end}: the log was cut back"
    return ""


def _target(plan: Plan, spec: ReplaySpec, facts: PlanFacts) -> Refused | None:
    target, topic = facts.target, plan.target.topic
    if target is None:
        if plan.create_target and not plan.target.topic_id:
            return None
        return Refused(Code.STALE_PLAN, f"the target topic {topic} does not exist any more")
    why = _changed(plan, target)
    if why:
        return Refused(Code.STALE_PLAN, why)
    held = held_records(spec, plan.partitions, target)
    if held:
        return Refused(Code.TARGET_NOT_EMPTY, held)
    for finding in inspect_target(spec, facts):
        if finding.severity is Severity.ERROR:
            return Refused(ERROR_CODES.get(finding.code, Code.TARGET_LIMITS), finding.message)
    return None


def _changed(plan: Plan, target: TopicFacts) -> str:
    planned = plan.target
    if planned.topic_id and target.topic_id != planned.topic_id:
        return _made_again(planned.topic, planned.topic_id, target.topic_id)
    if target.partitions != planned.partitions:
        return f"the target topic {planned.topic} has {target.partitions} partitions, planned were {planned.partitions}"
    return ""


def _made_again(topic: str, planned: str, found: str) -> str:
    return f"topic {topic} was deleted and made again: its id is {found}, planned was {planned}"
