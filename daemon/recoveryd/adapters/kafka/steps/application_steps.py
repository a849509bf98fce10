"""Steps that stop and start an application which the daemon itself, or a service, controls. Where a person does it, its
group is looked at instead (`group_steps`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from recoveryd.adapters.kafka.steps.reporting import report
from recoveryd.ports import ApplicationControl
from recoveryd.units.control import TOLD, ApplicationState, Desired, Needs, Report, Wish
from recoveryd.units.model import ControlKind, Unit
from recoveryd.workflows.model.actions import Action, AwaitStarted, AwaitStopped
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import START_FAILED, Outcome, StepReported

_FAILED: Final = frozenset(
    {ApplicationState.STOPPED, ApplicationState.CHANGING}
)  # of what could not be seen nothing is known


class ApplicationSteps:
    """`units`: all that are in force."""

    def __init__(self, units: Callable[[], Mapping[str, Unit]], control: ApplicationControl) -> None:
        self._units = units
        self._control = control

    def takes(self, action: Action) -> bool:
        if not isinstance(action, AwaitStopped | AwaitStarted):
            return False
        unit = self._units().get(action.unit)
        return unit is not None and unit.control is not ControlKind.MANUAL

    async def take(self, effect: TakeStep) -> StepReported:
        """How it ran is looked at and journaled before it is asked to stop."""
        action = effect.action
        assert isinstance(action, AwaitStopped | AwaitStarted)
        if isinstance(action, AwaitStopped) and "before" not in effect.seen:
            seen = await self._control.look(action.unit)
            if seen.state is ApplicationState.UNKNOWN:  # says nothing of how it ran
                why = _told(effect, action.unit, seen)
                return report(effect, Outcome.NOT_YET, why, is_under_way=seen.needs is Needs.TIME)
            why = f"{action.unit} is {seen.state.value}: {seen.why}"
            ran = seen.state is not ApplicationState.STOPPED
            evidence = {"before": dict(seen.before), "ran_before": ran}
            return report(effect, Outcome.NOT_YET, why, evidence=evidence, is_under_way=True)
        desired = Desired.RUNNING if isinstance(action, AwaitStarted) else Desired.STOPPED
        before = action.before if isinstance(action, AwaitStarted) else effect.seen["before"]
        assert isinstance(before, Mapping)
        key = f"{effect.workflow}/{effect.step}/{effect.since_ms}"
        unit = self._units().get(action.unit)
        may_restart = unit is None or not unit.appended
        found = await self._control.ask(
            Wish(
                action.unit,
                desired,
                effect.workflow,
                key,
                effect.since_ms,
                before,
                may_restart,
                was_told=effect.seen.get(TOLD) == key,
            )
        )
        evidence = {**effect.seen, **found.evidence}
        if desired is Desired.RUNNING and found.needs is Needs.MENDING and found.state in _FAILED:
            evidence[START_FAILED] = True
        if found.fulfils(desired):
            return report(effect, Outcome.DONE, f"{action.unit} is {desired.value}: {found.why}", evidence=evidence)
        is_under_way = found.needs is Needs.TIME
        why = _told(effect, action.unit, found)
        return report(effect, Outcome.NOT_YET, why, evidence=evidence, is_under_way=is_under_way)


def _told(effect: TakeStep, unit: str, found: Report) -> str:
    if found.needs is Needs.MENDING:
        return (
            f"{unit}: {found.why}; mend it and `pause` and `resume` {effect.workflow}, "
            f"or do it by hand and `ack` {effect.step}"
        )
    return f"{unit} is {found.state.value}: {found.why}"
