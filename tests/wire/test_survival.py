"""Every noun that is journaled or exchanged is the same after it went through bytes, so every field survives a restart.

The values are derived from the types, so a field that is added and not stored fails here.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoveryd.capabilities import make_capabilities
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import CommandRef, State
from recoveryd.recovery.model import Recovery
from recoveryd.wire.status_topic import DAEMON_KEY, StatusFold, encode_daemon
from recoveryd.workflows.model.actions import Action
from recoveryd.workflows.model.positions import To
from recoveryd.workflows.model.spec import ResetSpec, SavepointSpec, Spec
from recoveryd.workflows.model.workflow import Undo, Workflow, WorkflowStep
from recoveryd_jobs import contract
from tests.builders.core import STATUS
from tests.wire.of_types import filled, filled_recoveries

_MUCH = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
# What the capabilities journal; the kind of a recovery has to be that of its specification.
OTHERS = [c.status.noun for c in make_capabilities() if c.status is not None and c.status.noun is not Recovery]
# Of a whole workflow, drawn at random, some shapes are in no example.
WORKFLOW = Workflow(
    "w", State.RUNNING, "", 1, 1, 1, CommandRef("c", "s", "r"), verb="savepoint", unit=None,
    spec=SavepointSpec("u", "n"), control_offset=1,
)  # fmt: skip
SHAPES: list[tuple[type, Callable[[Any], Workflow]]] = [
    *((kind, lambda spec: replace(WORKFLOW, spec=spec)) for kind in get_args(Spec)),
    *((kind, lambda to: replace(WORKFLOW, spec=ResetSpec("c", "g", to))) for kind in get_args(To)),
    *((kind, lambda action: replace(WORKFLOW, steps=(WorkflowStep("s", action),))) for kind in get_args(Action)),
    *((kind, lambda undo: replace(WORKFLOW, undo=(undo,))) for kind in get_args(Undo)),
]
# The records between daemon and jobs, each with its own version.
EXCHANGED = [
    kind
    for kind in vars(contract).values()
    if dataclasses.is_dataclass(kind) and "version" in {f.name for f in dataclasses.fields(kind)}
]


def assert_survives(noun: Any) -> None:
    assert STATUS.fold([STATUS.encode(noun)]) == StatusFold({noun.id: noun}, DaemonRecord())


@_MUCH
@given(filled_recoveries().filter(lambda r: r.id != DAEMON_KEY))
def test_a_recovery_survives_a_restart(recovery: Recovery) -> None:
    assert_survives(recovery)


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(_MUCH, max_examples=25)
def test_every_other_noun_survives_a_restart(kind: type, data: st.DataObject) -> None:
    assert_survives(data.draw(filled(kind).filter(lambda noun: noun.id != DAEMON_KEY)))


@pytest.mark.parametrize(("kind", "having"), SHAPES, ids=[kind.__name__ for kind, _ in SHAPES])
@given(data=st.data())
@settings(_MUCH, max_examples=10)
def test_so_does_a_workflow_with_each_spec_position_action_and_undo(
    kind: type, having: Callable[[Any], Workflow], data: st.DataObject
) -> None:
    assert_survives(having(data.draw(filled(kind))))


@given(filled(DaemonRecord))
@example(DaemonRecord())
def test_the_record_of_the_daemon_survives_a_restart(record: DaemonRecord) -> None:
    assert STATUS.fold([encode_daemon(record)]) == StatusFold({}, record)


@pytest.mark.parametrize("kind", EXCHANGED, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_daemon_and_jobs_exchange_arrives_as_it_was_sent(kind: type, data: st.DataObject) -> None:
    sent: Any = replace(data.draw(filled(kind)), version=contract.VERSION)
    assert contract.decode(kind, contract.encode(sent)) == sent


def test_the_exchanged_records_are_all_of_them() -> None:
    assert {kind.__name__ for kind in EXCHANGED} >= {
        "JobSpec",
        "Directive",
        "LaneHeartbeat",
        "DriverHeartbeat",
        "Receipt",
    }
