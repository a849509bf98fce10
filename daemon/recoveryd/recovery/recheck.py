"""For a plan that waited for approval: whether the topics are still the planned ones. The same for every kind of
recovery.
"""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.model import Plan
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts


def changed_source(plan: Plan, facts: PlanFacts) -> Refused | None:
    """A refusal if the source is gone or is another topic now."""
    source = facts.source
    if source is None:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topic {plan.source.topic} does not exist any more")
    if source.topic_id != plan.source.topic_id:
        return Refused(Code.STALE_PLAN, _made_again(plan.source.topic, plan.source.topic_id, source.topic_id))
    return None


def changed_target(plan: Plan, target: TopicFacts) -> str:
    """What about the target is not as planned, or ""."""
    planned = plan.target
    if planned.topic_id and target.topic_id != planned.topic_id:
        return _made_again(planned.topic, planned.topic_id, target.topic_id)
    if target.partitions != planned.partitions:
        return f"the target topic {planned.topic} has {target.partitions} partitions, planned were {planned.partitions}"
    return ""


def _made_again(topic: str, planned: str, found: str) -> str:
    return f"topic {topic} was deleted and made again: its id is {found}, planned was {planned}"
