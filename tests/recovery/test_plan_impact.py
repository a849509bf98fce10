"""The plan of a copy names who reads its target, and what nobody has declared waits for a person."""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.impact import behaviour_of
from recoveryd.recovery.model import Affected, Plan
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import TargetReaders
from recoveryd.replay.plan import make_plan
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from tests.builders.core import command, make_facts, make_spec, make_target
from tests.builders.world import PARAMS, World

TARGET = "flights.v2"
BILLING = Unit(
    "billing", UnitKind.GROUP, "main", "billing", ("others",), outputs={"bills": Output(Behaviour.IDEMPOTENT)}, owner="ann"
)  # fmt: skip
SINK = Unit("board", UnitKind.CONNECT, "main", "board-sink", (TARGET,), sink_behaviour=Behaviour.APPEND_ONLY)
BOTH = TargetReaders(groups=("billing", "reports"))


def planned(readers: TargetReaders, *units: Unit) -> Plan:
    facts = replace(make_facts(target=make_target()), readers=readers)
    made = make_plan(make_spec(), facts, Params(units={unit.name: unit for unit in units}))
    assert isinstance(made, Plan), made
    return made


@pytest.mark.scenario("S-RUN-4")
def test_two_groups_and_a_declared_sink_on_the_target_are_all_listed_with_what_is_declared() -> None:
    plan = planned(BOTH, BILLING, SINK)
    assert plan.impact == (
        Affected("group", "reports", None, "unknown", None, "cluster"),
        Affected("group", "billing", "billing", "idempotent", "ann", "cluster"),
        Affected("sink", "board-sink", "board", "append_only", None, "config"),
    )
    told = {f.code: (f.severity.value, f.message) for f in plan.findings if f.code.startswith("impact")}
    assert told == {
        "impact_unknown": (
            "warn",
            "group reports read flights.v2, and nothing says what a record that comes twice does there",
        ),
        "impact": ("info", "group billing, sink board-sink read flights.v2: append_only, idempotent"),
    }
    assert plan.hash == planned(TargetReaders()).hash


@pytest.mark.scenario("S-RUN-4")
def test_a_sink_that_connect_knows_and_its_group_are_one() -> None:
    seen = TargetReaders(groups=("connect-board-sink", "connect-other"), sinks=("board-sink", "other"))
    plan = planned(seen, SINK)
    assert [(row.kind, row.name, row.behaviour, row.seen_by) for row in plan.impact] == [
        ("sink", "other", "unknown", "connect, cluster"),
        ("sink", "board-sink", "append_only", "config, connect, cluster"),
    ]


@pytest.mark.scenario("S-RUN-4")
@pytest.mark.parametrize(
    ("unit", "behaviour"),
    [
        (replace(BILLING, outputs={}), "unknown"),
        (replace(BILLING, outputs={"a": Output(Behaviour.IDEMPOTENT), "b": Output()}), "unknown"),
        (
            replace(BILLING, outputs={"a": Output(Behaviour.IDEMPOTENT), "b": Output(Behaviour.APPEND_ONLY)}),
            "append_only",
        ),
        (replace(BILLING, sink_behaviour=Behaviour.TRANSACTIONAL), "transactional"),
        (replace(BILLING, outputs={}, sink_behaviour=Behaviour.IDEMPOTENT), "idempotent"),
        (BILLING, "idempotent"),
    ],
)
def test_the_worst_of_all_that_it_writes_counts_and_what_nobody_said_is_unknown(unit: Unit, behaviour: str) -> None:
    assert behaviour_of(unit) == behaviour


def test_an_application_is_not_affected_by_its_own_internal_topic() -> None:
    own = Unit("shop", UnitKind.STREAMS, "main", "flights.v2", ("others",), internal_topics=(TARGET,))
    assert planned(TargetReaders(groups=("flights.v2",)), own).impact == ()


def test_what_was_not_told_is_a_finding() -> None:
    plan = planned(TargetReaders(problems=("of 900 groups only 500 were asked",)))
    assert [(f.code, f.severity.value) for f in plan.findings if f.code.startswith("impact")] == [
        ("impact_untold", "warn")
    ]


def world_with(readers: TargetReaders, *units: Unit, asks: bool = True) -> World:
    params = replace(PARAMS, units={unit.name: unit for unit in units}, approval_of_unknown_readers=asks)
    return World(replace(make_facts(target=make_target()), readers=readers), params=params)


@pytest.mark.scenario("S-RUN-4")
def test_what_is_unknown_waits_for_approval_and_then_runs() -> None:
    world = world_with(BOTH, BILLING)
    world.feed(command("replay"))
    found = world.recovery()
    assert found.state is State.AWAITING_APPROVAL
    assert "does to group reports, which read flights.v2 (approval.unknown_readers)" in found.why
    assert found.plan is not None
    world.feed(command("approve", "r1", offset=1, plan_hash=found.plan.hash))
    assert world.run_until(State.COMPLETED)


@pytest.mark.scenario("S-RUN-4")
@pytest.mark.parametrize(
    ("readers", "units", "asks"),
    [
        (TargetReaders(), (), True),
        (TargetReaders(groups=("billing",)), (BILLING, SINK), True),
        (TargetReaders(problems=("nobody told",)), (), True),
        (BOTH, (BILLING,), False),
    ],
)
def test_what_is_declared_or_wanted_so_runs_at_once(
    readers: TargetReaders, units: tuple[Unit, ...], *, asks: bool
) -> None:
    world = world_with(readers, *units, asks=asks)
    world.feed(command("replay"))
    assert world.recovery().state is not State.AWAITING_APPROVAL


def test_a_command_whose_id_looks_like_that_of_a_workflow_waits_like_every_other() -> None:
    world = world_with(BOTH)
    world.feed(command("replay", "w1-1", "w1.1700000000000.w1-1"))
    assert world.recovery("w1-1").state is State.AWAITING_APPROVAL
