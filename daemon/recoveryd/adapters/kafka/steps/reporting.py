"""What became of a step."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import UNTRIED, Outcome, StepReported
from recoveryd.workflows.model.workflow import Undo


def report(effect: TakeStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(effect.workflow, effect.step, effect.try_number, outcome, why, **more)  # type: ignore[arg-type]


def failed(effect: TakeStep, problem: ClusterProblem) -> StepReported:
    """For a step that has more to say of it than the problem: what it changed before."""
    return report(effect, Outcome.FAILED, str(problem), code=problem.code.value, is_retriable=problem.retriable)


def not_done(effect: TakeStep, what: str, undo: Iterable[Undo] = ()) -> StepReported:
    """For a try that only looked. `undo`: of what earlier ones did."""
    return report(effect, Outcome.LEFT, f"not done yet: {what}", undo=tuple(undo))


def is_first(effect: TakeStep) -> bool:
    """Whether nothing was tried so far: what is there already, and like ours, is somebody else's then."""
    return effect.try_number == 1 or effect.seen.get(UNTRIED) == effect.try_number - 1


def untried(effect: TakeStep, problem: ClusterProblem) -> StepReported:
    """For a step that failed while it looked, before it changed anything."""
    return replace(failed(effect, problem), evidence=still_untried(effect))


def still_untried(effect: TakeStep) -> Mapping[str, object]:
    """The evidence of a try that ends before it changed anything: what comes next is as much the first as this
    one was.
    """
    return {**effect.seen, UNTRIED: effect.try_number} if is_first(effect) else effect.seen
