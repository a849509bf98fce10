"""What became of a step."""

from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported


def report(effect: TakeStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(effect.workflow, effect.step, effect.try_number, outcome, why, **more)  # type: ignore[arg-type]


def failed(effect: TakeStep, problem: ClusterProblem) -> StepReported:
    """For a step that has more to say of it than the problem: what it changed before."""
    return report(effect, Outcome.FAILED, str(problem), code=problem.code.value, is_retriable=problem.retriable)
