"""What became of a step."""

from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported


def report(effect: TakeStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(effect.workflow, effect.step, effect.try_number, outcome, why, **more)  # type: ignore[arg-type]
