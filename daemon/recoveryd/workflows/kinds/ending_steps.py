"""The last steps of a workflow after which an application begins again: its offsets are set, its local state goes, it
is started, reads up to what was there, and a person looks at its outputs.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from recoveryd.units.internal_topics import is_changelog
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.kinds.state import clean_text
from recoveryd.workflows.model.actions import AskPerson, AwaitCaughtUp, AwaitStarted, LookAtTopics, SetOffsets
from recoveryd.workflows.model.spec import ReprocessSpec, WithOutputs
from recoveryd.workflows.model.step_names import CATCH_UP, CLEAN, CONFIRM, LOOK, SET, START
from recoveryd.workflows.model.workflow import WorkflowStep


def last_steps(
    spec: WithOutputs, unit: Unit, internal: Collection[str], ids: Mapping[str, str], gone: Mapping[str, str]
) -> Iterator[WorkflowStep]:
    """From the offsets on, once everything that has to be gone or made is so. `ids`: of topics that are not
    made again; `gone`: internal ones that went, with those that they had.
    """
    cluster, group = spec.cluster, spec.group
    yield WorkflowStep(SET, SetOffsets(cluster, group, connector=unit.connector, topic_ids=ids, gone=gone))
    if unit.keeps_state:
        yield WorkflowStep(CLEAN, AskPerson(clean_text(unit)))
    changelogs = tuple(name for name in internal if is_changelog(name)) if unit.keeps_state else ()
    start = AwaitStarted(cluster, group, unit.name, _start_note(spec), changelogs=changelogs)
    yield WorkflowStep(START, replace(start, inputs=unit.positioned_inputs, may_lack=_may_lack(spec, unit)))
    yield WorkflowStep(CATCH_UP, AwaitCaughtUp(cluster, group, {topic: {} for topic in unit.positioned_inputs}))
    if spec.outputs:
        written = tuple(choice.name or name for name, choice in spec.outputs.items())
        yield WorkflowStep(LOOK, LookAtTopics(cluster, (*written, *internal)))
        yield WorkflowStep(CONFIRM, AskPerson(f"look whether {', '.join(written)} holds what it should"))


def _start_note(spec: WithOutputs) -> str:
    moved = [f"{choice.name} in place of {name}" for name, choice in spec.outputs.items() if choice.name is not None]
    return f", with the output {', '.join(moved)}" if moved else ""


def _may_lack(spec: WithOutputs, unit: Unit) -> int | None:
    """So many records may be gone in all; None = nobody was asked. Streams begins behind them by default. Any other
    consumer goes to the end of a log that has lost its place, and leaves all of it out.
    """
    if not isinstance(spec, ReprocessSpec):
        return None
    return spec.accept_missing if unit.kind is UnitKind.STREAMS else 0
