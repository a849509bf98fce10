"""Whether the plan of a verification that waited for approval still fits: both topics must still be the same."""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.model import Plan
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts
from recoveryd.recovery.recheck import changed_source, changed_target
from recoveryd.verification.spec import VerificationSpec


def stale(plan: Plan, spec: VerificationSpec, facts: PlanFacts) -> Refused | None:
    """A refusal that names the first thing that is not as planned, or None."""
    refused = changed_source(plan, facts)
    if refused is not None or facts.source is None:
        return refused
    why = _grown(plan, spec, facts.source) or _compared(plan, facts.target)
    return Refused(Code.STALE_PLAN, why) if why else None


def _grown(plan: Plan, spec: VerificationSpec, source: TopicFacts) -> str:
    """A sentence if partitions were added to a source that is to be compared whole, or "": the plan would leave them
    out.
    """
    if spec.source.partitions is not None or source.partitions == plan.source.partitions:
        return ""
    return f"topic {source.topic} has {source.partitions} partitions, planned were {plan.source.partitions}"


def _compared(plan: Plan, target: TopicFacts | None) -> str:
    return f"topic {plan.target.topic} does not exist any more" if target is None else changed_target(plan, target)
