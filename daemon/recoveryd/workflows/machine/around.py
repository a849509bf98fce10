"""What is known beside a workflow when a step of it reports: how live traffic is, and which of its topics are held."""

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.held import holder_of, say_held
from recoveryd.live.slice import LiveDraft
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.throttling import live_over_slo
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.kind import Around
from recoveryd.workflows.model.workflow import Workflow


def around_of(draft: WorkflowDraft, workflow: Workflow) -> Around:
    unit = draft.params.units.get(workflow.unit or "")
    holds = draft.draft.view(HoldDraft).holds
    held = {}
    for name in () if unit is None else (*unit.inputs, *unit.intermediate, *unit.outputs):
        by = holder_of(holds, (workflow.spec.cluster, name))
        if by is not None:
            held[name] = say_held(name, by)
    no_copy = live_over_slo(draft.draft.view(RecoveryDraft), (workflow.spec.cluster,))
    return Around(draft.now_ms, unit, _live_over(draft), held, draft.params.units, no_copy)


def _live_over(draft: WorkflowDraft) -> tuple[str, ...] | None:
    """What is protected and over its SLO by its newest samples; None where nothing was measured."""
    found = [
        pressure
        for decision in draft.draft.view(LiveDraft).protecting.decisions.values()
        for pressure in decision.pressures
    ]
    if not found:
        return None
    over = sorted(pressure for pressure in found if pressure.share > 1)
    return tuple(f"{p.name} is {p.value_s:.3g} s, {p.share:.1f} times its SLO" for p in over)
