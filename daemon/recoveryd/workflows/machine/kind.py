"""A kind of workflow is a value: what its command means, what has to be known, which steps follow from it.

To add one: a spec in `spec`, its command in `commands`, a module that makes its plan, and its value in `all_kinds`; new
steps are actions (`actions`), which an adapter carries out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from recoveryd.kernel.commands import Command
from recoveryd.kernel.refused import Refused
from recoveryd.units.model import Unit
from recoveryd.workflows.machine.undoing import rollback_steps, told_lost
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, WantedFacts
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import Ending, RowKey, Undo, Workflow, WorkflowPlan, WorkflowStep


@dataclass(frozen=True, slots=True)
class Knows:
    """What a kind may look at when a command arrives. `before`: how the application ran, or ended, that the
    workflow has stopped which sent it, if one did. `run`: the id that the workflow will have. `takes_over`: an upgrade
    sent it, which lets the version run again that it stopped before it has this taken back.
    """

    params: WorkflowParams
    workflows: Workflows
    before: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """`told` says in words what is to happen. `undo`: what is known already of what can be put back. `leases`: keys of
    what has to stay as it makes it until it ends, whatever it is now. `reads`: topics that it is to have copied.
    `advice`: findings for whoever goes on with it, which another workflow that began it does itself.
    """

    plan: WorkflowPlan
    steps: tuple[WorkflowStep, ...]
    told: str
    undo: tuple[Undo, ...] = field(default=())
    cut: Cut | None = None
    leases: frozenset[RowKey] = frozenset()
    reads: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside a workflow when a step reports. `live_over`: protected signals over their SLO, each in
    words; None = nothing is protected, or nothing was measured yet. `held`: by topic of the unit, who holds it and why.
    `units`: all that the config has now. `no_copy`: why a copy on its cluster would be refused for the sake of live
    traffic; None = it would not.
    """

    now_ms: int
    unit: Unit | None = None
    live_over: tuple[str, ...] | None = None
    held: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    no_copy: str | None = None


def _as_told(_workflow: Workflow, _step: WorkflowStep, event: StepReported, _around: Around) -> StepReported:
    return event


def _without_report(workflow: Workflow, _ending: Ending, _now_ms: int) -> Mapping[str, Any] | None:
    return workflow.report


def _unchanged(workflow: Workflow, _step: WorkflowStep, event: StepReported) -> Workflow:
    return workflow.with_undo(event.undo)


def _one_unit(spec: Any) -> tuple[str, ...]:
    return () if spec.unit is None else (spec.unit,)


def _no_children(_spec: Any) -> str:
    return ""


def _nothing_left(_workflow: Workflow) -> str:
    return ""


def _is_apart(_workflow: Workflow, _later: Workflow) -> bool:
    return False


def _lost_only(workflow: Workflow) -> tuple[str, ...]:
    """Of applications nothing: a rollback starts again what ran, or nobody knows whether it runs by then."""
    return tuple(filter(None, (told_lost(workflow),)))


class BeginsWorkflow(Command, Protocol):
    """A command that asks for a new workflow."""

    @property
    def spec(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class WorkflowKind:
    """What one kind of workflow says of itself; the rest is the same for all."""

    command: type[BeginsWorkflow]  # that asks for such a workflow
    form: Any  # of the data of the command (`recoveryd.wire.forms.VerbForm`)
    # Spec → Spec | Refused: adds to the spec of a command what the config and other workflows say.
    complete: Callable[[Any, Knows], Any]
    wanted: Callable[[Any, WorkflowParams], WantedFacts]
    plan: Callable[[Any, Found, WorkflowParams], Planned | Refused]
    claims: Callable[[Any], frozenset[str]]  # the things that only one workflow works on at a time, each in words
    topics: Callable[[Any], Iterable[str]]  # those that the command names
    # Takes what a step found, so that later steps know it; it may find that the rest cannot be done.
    after_step: Callable[[Workflow, WorkflowStep, StepReported], Workflow | Refused] = _unchanged
    undo: Callable[[Workflow], tuple[WorkflowStep, ...]] = rollback_steps  # the steps of a rollback
    # What it means that a step found something.
    judge: Callable[[Workflow, WorkflowStep, StepReported, Around], StepReported] = _as_told
    report: Callable[[Workflow, Ending, int], Mapping[str, Any] | None] = _without_report  # made when the workflow ends
    stays: Callable[[Workflow], tuple[str, ...]] = _lost_only  # what a rollback leaves, in words
    left: Callable[[Workflow], str] = _nothing_left  # what one that is rolled back has to say besides, in words
    waived: frozenset[str] = frozenset()  # steps whose open gates a person may waive
    units: Callable[[Any], tuple[str, ...]] = _one_unit  # those that its plan is about
    ends: Callable[[Any], str] = _no_children  # the longest end that ids of what it begins have behind its own
    # Whether the second rests on what a rollback of the first would take away.
    is_beneath: Callable[[Workflow, Workflow], bool] = _is_apart
