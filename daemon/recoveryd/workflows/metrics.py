"""The metrics about workflows, and their values."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from recoveryd.kernel.metrics import Measures, Sample, count_states, gauge, newest_ends
from recoveryd.kernel.state import CoreState
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.workflow import KIND

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
    yield from newest_ends(ENDED, ((w.state.value, w.updated_ms) for w in known if w.is_terminal))
