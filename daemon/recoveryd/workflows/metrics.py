"""The metrics about workflows, and their values."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from recoveryd.kernel.metrics import Measures, Sample, count_states, gauge
from recoveryd.kernel.state import CoreState
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.workflow import KIND, Workflow

ENDED: Final = gauge(
    "recoveryd_workflow_ended_timestamp_seconds",
    "When a workflow ended, of all that ended in this state the newest.",
    "outcome",
)


def make_measures() -> Measures:
    return Measures(metrics=(ENDED,), gauges=lambda state, _now_ms: _gauges(state))


def _gauges(state: CoreState) -> Iterator[Sample]:
    known = state.of(WORKFLOWS)
    yield from count_states([KIND], Counter((KIND, workflow.state) for workflow in known))
    yield from (Sample(ENDED, (outcome,), at_ms / 1000) for outcome, at_ms in _ends_ms(known).items())


def _ends_ms(workflows: Iterable[Workflow]) -> Mapping[str, int]:
    """By state. A count cannot tell of one that ended before its first look."""
    found: dict[str, int] = {}
    for workflow in workflows:
        if workflow.is_terminal:
            outcome = workflow.state.value
            found[outcome] = max(workflow.updated_ms, found.get(outcome, 0))
    return found
