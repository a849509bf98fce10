"""What the topics of a cut are called for the unit that begins with it, and the steps that only this kind has."""

from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.spec import RestoreSpec

RECREATE_STATE, CREATE_STATE, SETTLE = "recreate_state_topics", "create_state_topics", "settle_state_topics"
DELETE_FILLED = "delete_filled_state"  # on the way back


def cut_of(spec: RestoreSpec) -> Cut:
    assert spec.cut is not None
    return spec.cut


def name_now(spec: RestoreSpec, cut: Cut, topic: CutTopic) -> str:
    start = f"{cut.group}-"
    return f"{spec.group}-{topic.name.removeprefix(start)}" if topic.name.startswith(start) else topic.name


def state_names(spec: RestoreSpec) -> frozenset[str]:
    cut = cut_of(spec)
    return frozenset(name_now(spec, cut, topic) for topic in cut.topics)
