"""Positions that earlier workflows noted: looked up when a command arrives, so that the plan has offsets."""

from collections.abc import Collection, Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.workflows.model.actions import TakeSnapshot
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.positions import AtTopicOffsets, OfSavepoint, OfSnapshot, To
from recoveryd.workflows.model.spec import SavepointSpec
from recoveryd.workflows.model.workflow import OffsetUndo, Workflow

Offsets = dict[str, dict[int, int]]


def savepoint_of(name: str, workflows: Workflows) -> Workflow | None:
    """The completed one of this name, if it was not deleted."""
    for workflow in workflows:
        spec = workflow.spec
        if isinstance(spec, SavepointSpec) and spec.name == name and workflow.state is State.COMPLETED:
            return workflow
    return None


def looked_up(to: To, cluster: str, group: str, workflows: Workflows) -> To | Refused:
    """`to`, with the offsets in place of the name of what noted them."""
    match to:
        case OfSnapshot(run):
            noted = workflows.get(run)
            found, bare = _offsets(() if noted is None or noted.spec.cluster != cluster else noted.undo, group)
            if found and noted is not None:
                return AtTopicOffsets(found, _ids(noted, group, {*found, *bare}), bare)
            message = f"{run} noted no offsets of {group} on {cluster}"
            return Refused(Code.NO_SUCH_SAVEPOINT, message, "Name a workflow that did; `recoveryctl list` shows them.")
        case OfSavepoint(name):
            saved = savepoint_of(name, workflows)
            if saved is None or saved.cut is None:
                hint = "`recoveryctl savepoint list` shows them."
                return Refused(Code.NO_SUCH_SAVEPOINT, f"there is no savepoint {name!r}", hint)
            if saved.cut.cluster != cluster:
                message = f"the savepoint {name} is of {saved.cut.cluster}, whose offsets mean nothing on {cluster}"
                return Refused(Code.INVALID_VALUE, message, "Name a time, or a savepoint of the same cluster.")
            by_topic = saved.cut.offsets.items()
            offsets = {topic: {p: at for p, at in ats.items() if at is not None} for topic, ats in by_topic}
            left = {topic: tuple(p for p, at in ats.items() if at is None) for topic, ats in by_topic}
            return AtTopicOffsets(offsets, saved.cut.topic_ids, {topic: bare for topic, bare in left.items() if bare})
        case _:
            return to


def refuse_created_again(
    noted: Mapping[str, str], now: Mapping[str, str], since: str = "its offsets were noted"
) -> Refused | None:
    """Of topics that were noted by their ids: offsets in one mean nothing in the next of its name."""
    name = next((name for name, topic_id in now.items() if noted.get(name, topic_id) != topic_id), None)
    if name is None:
        return None
    message = f"{name} was created again since {since}, which mean nothing there"
    return Refused(Code.TOPIC_RECREATED, message, "Begin at a time, or at what was noted since.")


def _ids(noted: Workflow, group: str, topics: Collection[str]) -> dict[str, str]:
    """Of these topics, as the steps that noted their offsets pinned them."""
    found: dict[str, str] = {}
    for step in noted.steps:
        if isinstance(step.action, TakeSnapshot) and step.action.group == group:
            found |= {name: topic_id for name, topic_id in step.action.topic_ids.items() if name in topics}
    return found


def _offsets(rows: tuple[object, ...], group: str) -> tuple[Offsets, dict[str, tuple[int, ...]]]:
    """And where there was none."""
    found: Offsets = {}
    bare: dict[str, tuple[int, ...]] = {}
    for row in rows:
        if not isinstance(row, OffsetUndo) or row.group != group:
            continue
        if row.to is None:
            bare[row.name] = (*bare.get(row.name, ()), row.partition)
        else:
            found.setdefault(row.name, {})[row.partition] = row.to
    return found, bare
