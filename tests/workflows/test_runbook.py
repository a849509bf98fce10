"""The runbook in the core: what is seen, which way is proposed, what stops it, and each of its steps failing and cut
off by the death of the daemon.
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest
import typer

from recoveryd.cli.app import app
from recoveryd.holds.spec import Release, StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb
from recoveryd.units.facts import Member, PartitionEnds
from recoveryd.units.model import Behaviour, Output, Unit
from recoveryd.workflows.kinds.all_kinds import KINDS
from recoveryd.workflows.kinds.runbook.gates import GateState, find_gates
from recoveryd.workflows.kinds.runbook.names import SEVEN
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.machine.kind import Around
from recoveryd.workflows.model.actions import LookAtUnit, TopicForm
from recoveryd.workflows.model.commands import Discard, Escalate, Promote, Runbook, Savepoint
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import Found, TopicFound
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.spec import RunbookGate, RunbookPath, RunbookSpec, SavepointSpec
from recoveryd.workflows.model.workflow import QuotaUndo, StepState, UndoState
from recoveryd.workflows.wire.status import WorkflowForm
from tests.builders.core import make_hold
from tests.builders.deciding import make_decider
from tests.docs.test_commands import parse
from tests.workflows.app_world import OUTPUTS, PARTITIONS, Log
from tests.workflows.runbook_world import SAFE, WAIVED, RunbookWorld
from tests.workflows.world import report

APPENDS = replace(SAFE, outputs={"log": Output(Behaviour.APPEND_ONLY)})
STATELESS = replace(SAFE, stateful=False)


def states(world: RunbookWorld) -> dict[str, str]:
    return {step.name: step.state.value for step in world.workflow.steps}


def evidence(world: RunbookWorld, name: str) -> dict:  # type: ignore[type-arg]
    return dict(next(step.evidence for step in world.workflow.steps if step.name == name))


def at(offset: int) -> dict[str, dict[int, int]]:
    return {"orders": dict.fromkeys(range(PARTITIONS), offset)}


@pytest.mark.scenario("S-RUN-26", "S-RUN-21a", "S-RUN-5b")
def test_the_seven_steps_in_their_order_from_identify_to_close() -> None:
    world = RunbookWorld()
    before = dict(world.committed)
    assert world.begin(**world.marks) == "accepted"
    assert (world.workflow.state, world.waits_at) == (State.WAITING, "choose_path")
    assert "resume is proposed: offsets, state and sink describe the same point" in world.workflow.why
    assert world.ack("choose_path") == "accepted"
    assert world.waits_at == "execute"
    assert world.committed == before, "no offset is changed"
    world.starts()
    assert world.waits_at == "verify"
    assert "output is unknown: look whether totals holds what it should" in world.workflow.why
    assert world.note("verify", "compared with the ledger") == "accepted"
    assert (world.workflow.state, list(states(world))) == (State.COMPLETED, list(SEVEN))
    began = [n.data["step"] for n in world.notices if n.type == "step_started" and n.subject == "w1"]
    assert began == list(SEVEN)
    page = world.workflow.report
    assert page is not None
    assert (page["decided"]["path"], page["open"], page["changed"]) == ("resume", [], [])
    assert page["final"]["offsets"] == {"orders": {"0": 100, "1": 100}}
    assert page["gates"]["output"]["state"] == "waived"


@pytest.mark.scenario("S-RUN-7", "S-RUN-5b")
@pytest.mark.parametrize(
    ("unit", "sink", "state", "verdict", "count", "path"),
    [
        (SAFE, 60, 60, "ALIGNED", "same point", "resume"),
        (SAFE, 80, 60, "SINK_AHEAD", "40 offsets that will be read again", "resume"),
        (APPENDS, 80, 60, "SINK_AHEAD", "40 offsets that will be read again", "replay"),
        (SAFE, 50, 60, "SINK_BEHIND", "20 offsets", "replay"),
        (SAFE, 60, 40, "STATE_STALE", "behind the offsets, 40 offsets apart", "restore_state"),
        (SAFE, 60, 70, "STATE_STALE", "ahead of the offsets, 20", "restore_state"),
        (APPENDS, 60, 40, "STATE_STALE", "what becomes of log", "escalate"),
        (SAFE, None, None, "UNKNOWN", "which point its state is of and how far its sink goes", "resume"),
        (APPENDS, None, None, "UNKNOWN", "log may not be written twice", "escalate"),
        (STATELESS, 60, None, "ALIGNED", "same point", "resume"),
    ],
)
def test_three_truths_give_a_verdict_with_its_numbers_and_a_way(
    unit: Unit, sink: int | None, state: int | None, verdict: str, count: str, path: str
) -> None:
    world = RunbookWorld(unit)
    world.begin(sink={} if sink is None else at(sink), state={} if state is None else at(state))
    seen = evidence(world, "identify")
    proposed = evidence(world, "confirm_input")["proposed"]
    assert (seen["verdict"], proposed["path"]) == (verdict, path)
    assert count in proposed["why"]
    assert world.waits_at == "choose_path"


@pytest.mark.scenario("S-RUN-7a", "S-RUN-21c")
def test_what_lies_between_offset_and_sink_is_proposed_exactly_and_copied_to_a_topic_of_its_own() -> None:
    world = RunbookWorld(APPENDS)
    world.begin(sink=at(80), state=at(60))
    assert evidence(world, "identify")["range"] == {"orders": {"0": [60, 80], "1": [60, 80]}}
    world.ack("choose_path")
    (sent,) = world.sent
    assert (sent.verb, sent.subject) == ("replay", "w1-0")
    assert sent.data["source"]["from"] == {"offsets": {"0": 60, "1": 60}}  # type: ignore[index]
    assert sent.data["source"]["to"] == {"offsets": {"0": 80, "1": 80}}  # type: ignore[index]
    assert sent.data["target"] == {"cluster": "main", "topic": "orders.w1", "create": True}
    world.members = [Member("m", "shop-1", "host")]
    world.committed |= {("orders", p): 100 for p in range(PARTITIONS)}
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert world.rollback() == "rejected"
    assert "what w1-0 wrote to orders.w1 stays" in world.answers[-1].message


@pytest.mark.scenario("S-RUN-21b", "S-RUN-19")
def test_state_that_does_not_fit_is_begun_anew_by_a_workflow_of_its_own_which_a_rollback_takes_back() -> None:
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40))
    assert "it begins anew with empty state" in world.workflow.why
    world.go_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    child = world.look("w1-anew")
    assert (child.verb, child.state) == ("reprocess", State.COMPLETED)
    assert child.command.source == "//ops/ann"
    world.members = []
    world.committed |= {("orders", p): 0 for p in range(PARTITIONS)}
    assert world.rollback() == "accepted"
    for _ in range(3):
        world.deliver()
    assert (world.look("w1-anew").state, world.workflow.state) == (State.ROLLED_BACK, State.ROLLED_BACK)
    assert world.committed["orders", 0] == 60


@pytest.mark.scenario("S-RUN-19", "S-RUN-3")
def test_nothing_is_changed_before_the_input_is_confirmed() -> None:
    world = RunbookWorld()
    world.topics["orders"].start = 70
    assert world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0}) == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INPUT_NOT_CONFIRMED.value)
    assert "committed offsets lie outside the log: orders 0" in world.workflow.why
    assert (world.quotas, world.done, world.sent) == ({}, [], [])
    auto = RunbookWorld()
    auto.topics["orders"].start = 70
    auto.begin()
    assert evidence(auto, "confirm_input")["proposed"]["path"] == "escalate"


@pytest.mark.scenario("S-RUN-3", "S-RUN-14")
def test_five_dependencies_are_told_and_what_comes_of_one_that_is_not_known() -> None:
    world = RunbookWorld(replace(SAFE, owner=None))
    world.begin()
    told = evidence(world, "confirm_input")["dependencies"]
    assert list(told) == ["retention", "state", "output", "headroom", "ownership"]
    assert {name: each["state"] for name, each in told.items() if each["state"] == "unknown"} == dict.fromkeys(
        ("state", "output", "headroom", "ownership"), "unknown"
    )
    assert told["ownership"]["if_unknown"] == "the incident stands still while people find out who may decide"
    assert all(bool(each["if_unknown"]) == (each["state"] in {"unknown", "fail"}) for each in told.values())


@pytest.mark.scenario("S-RUN-21e")
def test_handed_over_it_has_changed_nothing_and_says_what_is_known() -> None:
    world = RunbookWorld()
    assert world.begin(RunbookPath.ESCALATE, quotas={"shop-1": 1_000.0}) == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.STOPPED, Code.ESCALATED.value)
    assert (world.quotas, world.done, world.sent) == ({}, [], [])
    page = world.workflow.report
    assert page is not None
    assert page["seen"]["verdict"] == "UNKNOWN"
    assert any("execute is skipped" in line for line in page["open"])
    (called,) = [n for n in world.notices if n.type == "runbook_escalated"]
    assert called.data["report"] == page


@pytest.mark.scenario("S-RUN-21e")
def test_it_can_be_handed_over_at_any_time() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0})
    assert (world.waits_at, world.quotas) == ("execute", {"shop-1": 1_000.0})
    assert world.say(Escalate) == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.STOPPED, Code.ESCALATED.value)
    assert world.quotas == {}
    assert world.workflow.report["changed"] == ["quota of shop-1: as it was before"]  # type: ignore[index]
    assert world.say(Escalate) == "rejected"


@pytest.mark.scenario("S-RUN-1", "S-RUN-26b")
def test_a_quota_of_somebody_elses_client_is_put_back_however_it_ends() -> None:
    for end in ("completed", "stopped", "failed"):
        world = RunbookWorld()
        world.quotas = {"shop-1": 5_000.0}
        world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0, "shop-2": 2_000.0})
        assert world.quotas == {"shop-1": 1_000.0, "shop-2": 2_000.0}
        match end:
            case "completed":
                world.go_through()
            case "stopped":
                world.stop()
            case _:
                world.pass_time(90_000, every_s=1_800)
        assert (world.workflow.state.value, world.quotas) == (end, {"shop-1": 5_000.0})
        rows = [row for row in world.workflow.undo if isinstance(row, QuotaUndo)]
        assert {row.state for row in rows} == {UndoState.DONE}


@pytest.mark.scenario("S-RUN-26b")
def test_it_is_closing_until_a_quota_is_put_back_and_leaves_what_somebody_else_set() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0})
    down = [True]

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "restore_quotas" and down[0]:
            return report(effect, Outcome.FAILED, "no answer", code=Code.CLUSTER_UNREACHABLE.value)
        return None

    world.fault = fault
    world.go_through()
    assert (world.workflow.state, world.quotas) == (State.CLOSING, {"shop-1": 1_000.0})
    assert evidence(world, "close")["temporary"] == ["quota of shop-1"]
    world.quotas, down[0] = {"shop-1": 7.0}, False
    world.pass_time(120)
    assert (world.workflow.state, world.quotas) == (State.COMPLETED, {"shop-1": 7.0})
    assert world.workflow.report["changed"] == ["quota of shop-1: somebody else changed it, so it stays"]  # type: ignore[index]


def test_a_quota_that_somebody_set_since_the_plan_is_not_overwritten() -> None:
    world = RunbookWorld()
    world.begin(quotas={"shop-1": 1_000.0}, **world.marks)
    world.quotas = {"shop-1": 7.0}
    world.ack("choose_path")
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.QUOTA_CHANGED.value)
    assert world.quotas == {"shop-1": 7.0}


def breaks_lag(world: RunbookWorld) -> None:
    world.committed["orders", 0] = 90


def breaks_output(world: RunbookWorld) -> None:
    world.topics["totals"].end = 3


def breaks_state(world: RunbookWorld) -> None:
    del world.topics["app-counts-changelog"]


def breaks_errors(world: RunbookWorld) -> None:
    world.topics["errors"].end += 4


@pytest.mark.scenario("S-RUN-23")
@pytest.mark.parametrize(
    ("gate", "breaks", "says"),
    [
        ("lag", breaks_lag, "10 offsets to read"),
        ("output", breaks_output, "totals ends earlier"),
        ("state", breaks_state, "app-counts-changelog is gone"),
        ("errors", breaks_errors, "8 records came to errors"),
        ("live", None, "no live traffic is protected"),
    ],
)
def test_a_gate_that_is_not_green_keeps_it_from_being_done_until_it_is_waived_with_a_reason(
    gate: str,
    breaks,
    says: str,  # type: ignore[no-untyped-def]
) -> None:
    world = RunbookWorld()
    others = {
        g: "not looked at here" for g in RunbookGate if g.value != gate and g in {RunbookGate.LIVE, RunbookGate.OUTPUT}
    }
    world.begin(RunbookPath.RESUME, waive=others, error_topics=("errors",))
    world.members = [Member("m", "shop-1", "host")]
    world.committed |= {("orders", p): 100 for p in range(PARTITIONS)}
    if breaks is not None:
        breaks(world)
    world.pass_time(60)
    assert world.waits_at == "verify"
    found = evidence(world, "verify")["gates"]
    assert [name for name, each in found.items() if each["state"] in {"red", "unknown"}] == [gate]
    assert says in found[gate]["told"]
    assert world.ack("verify") == "rejected"
    assert world.answers[-1].code == Code.WAIVER_WITHOUT_REASON.value
    assert world.waits_at == "verify"
    assert world.note("verify", "agreed with the owner") == "accepted"
    assert world.workflow.state is State.COMPLETED
    waived = world.workflow.report["gates"][gate]  # type: ignore[index]
    assert waived["state"] == "waived"
    assert "agreed with the owner" in waived["told"]


@pytest.mark.scenario("S-RUN-23")
def test_gates_that_nobody_mends_or_waives_end_it() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    world.starts(reads_all=False)
    assert world.waits_at == "verify"
    world.pass_time(90_000, every_s=1_800)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GATES_NOT_GREEN.value)
    assert world.workflow.report["gates"]["lag"]["state"] == "red"  # type: ignore[index]


SHADOW = {"topic": "orders", "ranges": {0: (10, 20), 1: (0, 5)}, "target": "totals"}
STAGED = "orders.shadow-w1"


def shadowed(waived: Mapping[RunbookGate, str] = WAIVED, **more: object) -> RunbookWorld:
    return shadowed_in(RunbookWorld(STATELESS), waived, **more)


def shadowed_in(world: RunbookWorld, waived: Mapping[RunbookGate, str] = WAIVED, **more: object) -> RunbookWorld:
    world.members = [Member("m", "shop-1", "host")]
    world.committed |= {("orders", p): 100 for p in range(PARTITIONS)}
    gates = {**waived, RunbookGate.OUTPUT: "looked at by hand"}
    assert world.begin(RunbookPath.SHADOW, waive=gates, **{**SHADOW, **more}) == "accepted"
    world.deliver()
    return world


@pytest.mark.scenario("S-RUN-21d")
def test_a_shadow_is_written_elsewhere_and_promoted_when_it_was_well_for_long_enough() -> None:
    world = shadowed(hold_ms=600_000)
    assert world.waits_at == "promote_or_discard"
    assert (world.topics[STAGED].end, world.topics["totals"].end) == (15, 40)
    assert world.ack("promote_or_discard") == "rejected"
    assert world.say(Promote) == "rejected"
    assert world.answers[-1].code == Code.NOT_READY.value
    world.pass_time(700, every_s=10)
    assert world.say(Promote) == "accepted"
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert world.topics["totals"].end == 40 + 15 * PARTITIONS, "each partition of a topic is alike in this world"
    assert STAGED not in world.topics
    publish = next(sent for sent in world.sent if sent.subject == "w1-publish-0")
    assert publish.data["target"] == {"cluster": "main", "topic": "totals", "on_existing": "append"}
    assert world.workflow.report["stays"] == ["what w1-publish-0 wrote to totals stays"]  # type: ignore[index]


def test_a_hold_of_days_can_be_promoted_after_it() -> None:
    world = shadowed(hold_ms=3 * 86_400_000)
    world.pass_time(3 * 86_400 + 120, every_s=600)
    assert world.waits_at == "promote_or_discard"
    assert world.say(Promote) == "accepted"
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why


@pytest.mark.parametrize(("gone_s", "goes_on"), [(300, True), (7_200, False)])
def test_a_hold_begins_anew_where_nobody_could_look_for_long(gone_s: int, goes_on: bool) -> None:
    world = shadowed(hold_ms=600_000)
    world.pass_time(500, every_s=10)
    world.now_ms += gone_s * 1_000
    if goes_on:
        world.lead()
        assert world.say(Promote) == "accepted"
        return
    assert world.say(Promote) == "rejected", "before the next look"
    assert "were not looked at since" in world.answers[-1].message
    world.lead()
    world.pass_time(30, every_s=10)
    assert world.say(Promote) == "rejected"
    assert "may be promoted from" in world.answers[-1].message
    world.pass_time(700, every_s=10)
    assert world.say(Promote) == "accepted"


def test_a_gate_that_turns_red_begins_the_hold_anew() -> None:
    world = shadowed(hold_ms=600_000)
    world.pass_time(500, every_s=10)
    world.committed["orders", 0] = 90
    world.pass_time(200, every_s=10)
    assert world.say(Promote) == "rejected"
    assert world.answers[-1].code == Code.NOT_READY.value
    assert "lag is red: shop has at most 10 offsets to read" in world.answers[-1].message
    world.committed["orders", 0] = 100
    world.pass_time(400, every_s=10)
    assert world.say(Promote) == "rejected"
    assert "may be promoted from" in world.answers[-1].message
    world.pass_time(400, every_s=10)
    assert world.say(Promote) == "accepted"


def test_a_gate_may_be_waived_during_a_hold_and_only_where_one_is_open() -> None:
    world = shadowed(hold_ms=60_000)
    assert world.note("promote_or_discard", "nothing is wrong") == "rejected"
    world.committed["orders", 0] = 90
    world.pass_time(70, every_s=10)
    assert world.note("promote_or_discard", "a poison record") == "accepted"
    world.pass_time(130, every_s=10)
    assert world.say(Promote) == "accepted"


def test_a_topic_of_the_name_of_the_shadow_that_was_there_before_is_not_taken_over() -> None:
    world = RunbookWorld(STATELESS)

    def comes(effect: TakeStep) -> StepReported | None:
        if effect.step == "confirm_input":
            world._make(STAGED)
        return None

    world.fault = comes
    world.begin(RunbookPath.SHADOW, **SHADOW)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_CHANGED.value)
    assert STAGED in world.topics
    assert world.rollback() == "rejected"


def test_what_has_nothing_to_be_copied_any_more_stops_before_anything_is_changed() -> None:
    for path in (RunbookPath.REPLAY, RunbookPath.AUTO):
        world = RunbookWorld(APPENDS)

        def moves(effect: TakeStep, world: RunbookWorld = world) -> StepReported | None:
            if effect.step == "confirm_input":
                world.committed |= {("orders", p): 80 for p in range(PARTITIONS)}
            return None

        world.fault = moves
        world.begin(path, sink=at(80), state=at(80))
        assert (evidence(world, "identify")["range"], world.sent) == ({"orders": {"0": [60, 80], "1": [60, 80]}}, [])
        if path is RunbookPath.REPLAY:
            assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INPUT_NOT_CONFIRMED.value)
            assert "nothing is to be copied any more" in world.workflow.why
        else:
            assert evidence(world, "confirm_input")["proposed"]["path"] == "resume"


def test_what_is_copied_is_what_was_confirmed() -> None:
    world = RunbookWorld(APPENDS)

    def moves(effect: TakeStep) -> StepReported | None:
        if effect.step == "confirm_input":
            world.committed |= {("orders", p): 70 for p in range(PARTITIONS)}
        return None

    world.fault = moves
    world.begin(RunbookPath.REPLAY, sink=at(80))
    (sent,) = world.sent
    assert sent.data["source"]["from"] == {"offsets": {"0": 70, "1": 70}}  # type: ignore[index]


def test_nothing_carried_out_is_no_green_output() -> None:
    world = RunbookWorld(STATELESS)
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    steps = tuple(
        replace(s, action=replace(s.action, runs=()), evidence={}) if s.name == "execute" else s  # type: ignore[type-var]
        for s in world.workflow.steps
    )
    unit_facts = world.facts()
    event = StepReported("w1", "verify", 1, Outcome.DONE, found=Found(units={SAFE.name: unit_facts}))
    step = next(s for s in steps if s.name == "verify")
    gates = find_gates(replace(world.workflow, steps=steps), step, STATELESS, unit_facts, event, Around(0))
    assert (gates[1].gate, gates[1].state) == (RunbookGate.OUTPUT, GateState.RED)


def test_records_in_one_partition_of_an_error_topic_are_not_made_up_for_by_another() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME, error_topics=("errors",), waive={})
    step = next(s for s in world.workflow.steps if s.name == "verify")
    for ends, told in (
        ({0: 5, 1: 1}, "2 records came to errors"),
        ({0: 1, 1: 3}, "ends earlier"),
        ({0: 3}, "ends earlier"),
        ({0: 3, 1: 3}, "nothing came"),
        ({0: 3, 1: 3, 2: 4}, "4 records came"),
    ):
        topic = TopicFound("id", TopicForm("errors", 2, 1), {p: PartitionEnds(0, end) for p, end in ends.items()})
        event = StepReported("w1", "verify", 1, Outcome.DONE, found=Found(topics={"errors": topic}))
        gates = find_gates(world.workflow, step, SAFE, world.facts(), event, Around(0))
        assert told in gates[3].told


def test_ids_that_leave_no_room_for_those_of_what_it_begins_are_refused() -> None:
    world = RunbookWorld()
    long = "w" * 51
    spec = RunbookSpec(SAFE.name, waive=WAIVED)
    assert world.send(lambda meta: Runbook(meta, spec), subject=long) == "rejected"
    assert (world.answers[-1].code, world.answers[-1].hint) == (
        Code.INVALID_SUBJECT.value, "Choose an id of at most 50 characters.",
    )  # fmt: skip
    assert world.send(lambda meta: Runbook(meta, replace(spec, path=RunbookPath.RESUME)), subject=long) == "accepted"
    assert world.send(lambda meta: Savepoint(meta, SavepointSpec(SAFE.name, "n")), subject="s" * 59) == "rejected"


@pytest.mark.scenario("S-RUN-21d")
def test_a_shadow_that_is_discarded_leaves_nothing() -> None:
    world = shadowed()
    before = world.topics["totals"].end
    assert world.say(Discard) == "accepted"
    world.pass_time(10)
    assert world.workflow.state is State.COMPLETED
    assert (STAGED in world.topics, world.topics["totals"].end) == (False, before)
    assert states(world)["close"] == "done"


def published(world: RunbookWorld) -> dict[str, object]:
    return next(dict(sent.data) for sent in world.sent if sent.subject == "w1-publish-0")


def test_just_what_was_verified_is_published_and_what_came_later_is_told() -> None:
    world = shadowed()
    world.topics[STAGED].end += 2
    assert world.say(Promote) == "accepted"
    world.lead()
    world.deliver()
    source = published(world)["source"]
    assert source["from"] == {"offsets": {"0": 0, "1": 0}}  # type: ignore[index]
    assert source["to"] == {"offsets": {"0": 15, "1": 15}}  # type: ignore[index]
    looked = next(step for step in world.workflow.steps if step.name == "verify_again")
    assert f"up to 4 records came to {STAGED} after it was verified, and are left out" in looked.why


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_staged_topic_that_was_made_again_is_not_published(is_gone: bool) -> None:
    world = shadowed()
    if is_gone:
        del world.topics[STAGED]
    else:
        world.topics[STAGED] = Log("somebody-s", 0, 15)
    world.say(Promote)
    world.deliver()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_RECREATED.value)
    assert world.topics["totals"].end == 40


def test_nor_is_one_that_lacks_records() -> None:
    world = shadowed()
    world.topics[STAGED].start = 1
    world.say(Promote)
    world.deliver()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)


def test_a_shadow_of_an_earlier_release_publishes_all_that_is_staged() -> None:
    world = RunbookWorld(STATELESS)
    world.tells_ends = False
    world = shadowed_in(world)
    world.say(Promote)
    world.deliver()
    assert published(world)["source"] == {"cluster": "main", "topic": STAGED, "from": "earliest", "to": "latest"}


def test_a_step_of_an_earlier_release_that_does_not_ask_for_what_is_staged_goes_on() -> None:
    world = RunbookWorld(STATELESS)
    world.tells_ends = False
    world = shadowed_in(world)
    world.committed["orders", 0] = 90
    world.say(Promote)
    world.deliver()
    assert world.waits_at == "verify_again"
    looked = next(step for step in world.workflow.steps if step.name == "verify_again")
    assert isinstance(looked.action, LookAtUnit)
    earlier = replace(looked, action=replace(looked.action, topics=()))
    steps = tuple(earlier if step is looked else step for step in world.workflow.steps)
    world.state = world.state.having(WORKFLOWS, Workflows.of([replace(world.workflow, steps=steps)]))
    world.committed["orders", 0] = 100
    world.deliver()
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why


def test_what_is_promoted_is_looked_at_once_more() -> None:
    world = shadowed()
    world.committed["orders", 0] = 90
    assert world.say(Promote) == "accepted"
    world.deliver()
    assert world.waits_at == "verify_again"
    assert world.topics["totals"].end == 40
    world.committed["orders", 0] = 100
    world.deliver()
    world.deliver()
    assert world.workflow.state is State.COMPLETED


def test_a_rollback_of_a_shadow_that_was_stopped_takes_what_it_staged_away() -> None:
    world = shadowed()
    world.stop()
    assert world.rollback() == "accepted"
    world.pass_time(10)
    assert (world.workflow.state, STAGED in world.topics) == (State.ROLLED_BACK, False)


@pytest.mark.scenario("S-RUN-8", "S-RUN-21c")
@pytest.mark.parametrize(
    ("path", "more", "code"),
    [
        (RunbookPath.REPLAY, {}, Code.NOTHING_TO_DO),
        (RunbookPath.REPLAY, {"topic": "orders", "ranges": {0: (50, 101)}}, Code.OFFSET_OUTSIDE_LOG),
        (RunbookPath.REPLAY, {"topic": "orders", "ranges": {7: (0, 1)}}, Code.OFFSET_OUTSIDE_LOG),
        (RunbookPath.REPLAY, {"topic": "errors", "ranges": {0: (0, 1)}}, Code.INVALID_VALUE),
        (RunbookPath.SHADOW, {"topic": "errors", "ranges": {0: (0, 1)}, "target": "totals"}, Code.INVALID_VALUE),
        (RunbookPath.REPLAY, {"topic": "nothing", "ranges": {0: (0, 1)}}, Code.SOURCE_TOPIC_MISSING),
        (RunbookPath.SHADOW, {"topic": "orders", "ranges": {0: (0, 1)}}, Code.MISSING_FIELD),
        (RunbookPath.SHADOW, {**SHADOW, "target": "nothing"}, Code.TARGET_TOPIC_MISSING),
        (RunbookPath.AUTO, {"error_topics": ("nothing",)}, Code.SOURCE_TOPIC_MISSING),
        (RunbookPath.AUTO, {"savepoint": "nothing"}, Code.NO_SUCH_SAVEPOINT),
        (RunbookPath.AUTO, {"sink": {"order": {0: 1}}}, Code.INVALID_VALUE),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(path: RunbookPath, more: dict, code: Code) -> None:  # type: ignore[type-arg]
    world = RunbookWorld()
    assert world.begin(path, **more) == "rejected"
    assert world.answers[-1].code == code.value
    assert (world.done, world.sent, world.quotas) == ([], [], {})


@pytest.mark.parametrize(
    ("target", "there"), [(None, "--target errors.copied --create"), ("orders", "--target orders --on-existing append")]
)
def test_to_copy_a_topic_of_nobody_the_command_for_it_is_named(target: str | None, there: str) -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.REPLAY, topic="errors", ranges={1: (0, 2), 0: (1, 3)}, target=target)
    said, _, command = world.answers[-1].hint.partition(": ")
    assert said == "Copy it with a replay of its own"
    assert command == (
        "recoveryctl replay --source errors --partitions 0,1 --from offsets:0=1,1=0 --to offsets:0=3,1=2 "
        f'{there} --reason "asked for in a runbook of shop"'
    )
    parse(typer.main.get_command(app), shlex.split(command)[1:])


def made(world: RunbookWorld, topic: str, end: int = 0, policy: str = "delete") -> None:
    world.topics[topic] = Log(f"{topic}-1", 0, end)
    world.configs[topic] = {"cleanup.policy": policy}


@pytest.mark.scenario("S-RUN-21c", "S-RUN-21d")
@pytest.mark.parametrize(
    ("path", "target", "makes", "code", "says"),
    [
        (RunbookPath.REPLAY, "totals", None, Code.TARGET_NOT_EMPTY, "partition 0 of totals has up to 40 records"),
        (RunbookPath.REPLAY, "full", ("full", 1), Code.TARGET_NOT_EMPTY, "up to 1 records already"),
        (RunbookPath.REPLAY, "empty", ("empty", 0, "compact"), Code.TARGET_COMPACTED, "empty is compacted"),
        (RunbookPath.REPLAY, None, ("orders.w1", 0), Code.INVALID_VALUE, "orders.w1 exists already"),
        (RunbookPath.SHADOW, "totals", (STAGED, 0), Code.INVALID_VALUE, f"{STAGED} exists already"),
        (RunbookPath.SHADOW, "empty", ("empty", 9, "compact,delete"), Code.TARGET_COMPACTED, "empty is compacted"),
        (RunbookPath.REPLAY, "empty", ("empty", 0), None, ""),
        (RunbookPath.SHADOW, "full", ("full", 9), None, ""),
    ],
)
def test_a_target_that_its_replays_would_refuse_is_refused_with_the_plan(
    path: RunbookPath,
    target: str | None,
    makes: tuple | None,
    code: Code | None,
    says: str,  # type: ignore[type-arg]
) -> None:
    world = RunbookWorld()
    if makes is not None:
        made(world, *makes)
    answer = world.begin(path, topic="orders", ranges={0: (10, 20)}, target=target, quotas={"shop-1": 1_000.0})
    assert answer == ("accepted" if code is None else "rejected")
    if code is not None:
        assert (world.answers[-1].code, says in world.answers[-1].message) == (code.value, True), world.answers[-1]
        assert (world.quotas, world.sent, world.done) == ({}, [], [])


def test_a_dry_run_has_the_hash_of_the_run_that_follows_whatever_their_ids_are() -> None:
    world = RunbookWorld()
    more = {"topic": "orders", "ranges": {0: (10, 20)}}
    assert world.begin(RunbookPath.REPLAY, dry_run=True, **more) == "accepted"
    spec = RunbookSpec(SAFE.name, RunbookPath.REPLAY, waive=WAIVED, dry_run=True, **more)  # type: ignore[arg-type]
    assert world.send(lambda meta: Runbook(meta, spec), subject="w2") == "accepted"
    assert world.workflow.plan is not None
    assert world.look("w2").plan.hash == world.workflow.plan.hash  # type: ignore[union-attr]


BOTH = replace(APPENDS, inputs=("orders", "steps"), intermediate=())


@pytest.mark.parametrize("moves", [False, True])
def test_ranges_of_two_topics_are_not_copied_to_one_whoever_proposed_it(*, moves: bool) -> None:
    """`moves`: the second topic comes apart after the plan."""
    world = RunbookWorld(BOTH)
    sink = {"orders": dict.fromkeys(range(PARTITIONS), 80), "steps": dict.fromkeys(range(PARTITIONS), 75)}
    apart, together = dict(world.committed), {("steps", p): 75 for p in range(PARTITIONS)}
    world.committed |= together if moves else {}

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "confirm_input":
            world.committed = apart
        return None

    world.fault = fault
    path = RunbookPath.REPLAY if moves else RunbookPath.AUTO
    assert world.begin(path, sink=sink, state={}, target="repaired") == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INPUT_NOT_CONFIRMED.value)
    assert "orders, steps cannot all go to repaired" in world.workflow.why
    assert world.sent == []
    findings = world.workflow.plan.findings  # type: ignore[union-attr]
    assert any("replay could not be carried out as things are" in told for told in findings) is not moves


def test_a_range_that_the_log_has_lost_is_not_proposed_to_be_copied() -> None:
    world = RunbookWorld()
    world.topics["orders"].start = 55
    world.begin(sink=at(50), state=at(60))
    assert evidence(world, "identify")["verdict"] == "SINK_BEHIND"
    proposed = evidence(world, "confirm_input")["proposed"]
    assert proposed["path"] == "escalate"
    assert "orders 0 holds 55 to 100, and 50 to 60 is needed" in proposed["why"]


def test_empty_state_is_not_begun_with_from_inputs_that_lack_their_beginning() -> None:
    world = RunbookWorld()
    world.topics["orders"].start = 5
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert world.answers[-1].code == Code.INPUT_INCOMPLETE.value
    assert "there is no savepoint, and orders 0 begins at 5, as do 1 more" in world.answers[-1].message
    assert world.begin(sink=at(60), state=at(40)) == "accepted"
    proposed = evidence(world, "confirm_input")["proposed"]
    assert (proposed["path"], "accept_missing" in proposed["why"]) == ("escalate", True)


def test_state_is_not_begun_anew_where_nobody_said_what_writing_twice_does_or_could_approve_it() -> None:
    world = RunbookWorld(replace(SAFE, outputs={"totals": Output()}))
    assert world.begin(RunbookPath.RESTORE_STATE, outputs={"totals": OUTPUTS["totals"]}) == "rejected"
    assert world.answers[-1].code == Code.MISSING_FIELD.value
    assert world.begin(sink=at(60), state=at(40)) == "accepted"
    proposed = evidence(world, "confirm_input")["proposed"]
    assert (proposed["path"], "nobody said what it does to totals" in proposed["why"]) == ("escalate", True)
    world = RunbookWorld()
    rule = ApprovalRule(ApprovalBy.APPROVERS, frozenset({ApprovedVerb.REPROCESS}))
    world.core = make_decider(replace(world.params, approvals=(rule,)))
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert world.answers[-1].code == Code.NOT_AN_APPROVER.value
    assert "reprocess, which this begins: " in world.answers[-1].message


def test_what_was_waived_before_a_shadow_is_promoted_is_waived_when_it_is_looked_at_once_more() -> None:
    world = shadowed({RunbookGate.LIVE: "a test cluster"}, hold_ms=60_000)
    assert world.note("verify", "it has no error topics") == "accepted"
    world.committed["orders", 0] = 90
    world.pass_time(70, every_s=10)
    assert world.note("promote_or_discard", "a poison record") == "accepted"
    world.pass_time(130, every_s=10)
    assert world.say(Promote) == "accepted"
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    gates = world.workflow.report["gates"]  # type: ignore[index]
    assert "it has no error topics" in gates["errors"]["told"]
    assert "a poison record" in gates["lag"]["told"]


def test_a_hold_on_the_target_keeps_a_shadow_from_being_promoted_and_lets_it_wait() -> None:
    world = shadowed()
    assert world.send(lambda meta: StartHold(meta, make_hold("totals")), subject="h1") == "accepted"
    assert world.say(Promote) == "rejected"
    assert (world.answers[-1].code, world.waits_at) == (Code.TOPIC_HELD.value, "promote_or_discard")
    assert world.send(Release, subject="h1") == "accepted"
    assert world.say(Promote) == "accepted"
    world.deliver()
    assert world.workflow.state is State.COMPLETED, world.workflow.why


def test_a_hold_on_the_target_does_not_keep_what_was_staged_from_being_discarded() -> None:
    world = shadowed()
    assert world.send(lambda meta: StartHold(meta, make_hold("totals")), subject="h1") == "accepted"
    assert world.say(Discard) == "accepted"
    world.pass_time(10)
    assert (world.workflow.state, STAGED in world.topics) == (State.COMPLETED, False)


def test_outputs_that_nothing_is_said_about_are_not_written_again() -> None:
    world = RunbookWorld(APPENDS)
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert (world.answers[-1].code, "log" in world.answers[-1].message) == (Code.MISSING_FIELD.value, True)


def test_another_workflow_on_its_application_is_refused_and_its_own_is_not() -> None:
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40))
    assert world.reprocess_as("w2", outputs={"totals": OUTPUTS["totals"]}) == "rejected"
    assert world.answers[-1].code == Code.IN_USE.value
    world.ack("choose_path")
    world.deliver()
    assert world.look("w1-anew").state is State.WAITING


TAKEN = ("identify", "confirm_input", "protect_live", "execute", "verify", "close", "restore_quotas")


def run(world: RunbookWorld) -> None:
    world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0})
    world.go_through()


@pytest.mark.parametrize("name", TAKEN[:-1])
def test_a_step_that_fails_for_good_leaves_a_reason_and_nothing_temporary(name: str) -> None:
    world = RunbookWorld()
    world.fail_at(name, retriable=False)
    run(world)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)
    assert [s.name for s in world.workflow.steps if s.state is StepState.FAILED] == [name]
    assert world.quotas == {}
    assert any(f"{name} is failed: no answer" in line for line in world.workflow.report["open"])  # type: ignore[index]


@pytest.mark.parametrize("name", TAKEN)
def test_a_step_that_fails_for_a_while_is_tried_again(name: str) -> None:
    world = RunbookWorld()
    world.fail_at(name, retriable=True, times=3)
    run(world)
    world.pass_time(200)
    assert (world.workflow.state, world.quotas) == (State.COMPLETED, {})


@pytest.mark.scenario("S-RUN-26")
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    """`is_done`: the cluster did it, and nobody heard."""
    world = RunbookWorld()
    world.die_at(name, is_done=is_done)
    run(world)
    world.live_again()
    world.go_through()
    assert (world.workflow.state, world.quotas) == (State.COMPLETED, {})


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_daemon_that_dies_around_the_command_of_a_child_begins_it_once(is_sent: bool) -> None:
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40))
    world.lost = True
    world.ack("choose_path")
    world.lost = False
    world.lead()
    world.pass_time(5)
    if is_sent:
        world.deliver()
        world.lead()
    world.go_through()
    assert (world.workflow.state, world.look("w1-anew").state) == (State.COMPLETED, State.COMPLETED)
    assert world.done.count("set") == 1


def test_a_child_that_fails_ends_it_with_the_childs_reason() -> None:
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40))

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.workflow != "w1-anew":
            return None
        return report(effect, Outcome.FAILED, "no answer", code=Code.CLUSTER_UNREACHABLE.value)

    world.fault = fault
    world.ack("choose_path")
    world.deliver()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)
    assert "w1-anew is failed" in world.workflow.why


def test_one_that_waits_for_approval_can_be_stopped_before_anything_temporary_was_changed() -> None:
    world = RunbookWorld(replace(SAFE, approvers=("//ops/kim",)))
    world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0})
    assert world.workflow.state is State.AWAITING_APPROVAL
    assert world.stop() == "accepted"
    assert (world.workflow.state, world.quotas) == (State.STOPPED, {})


@pytest.mark.scenario("S-RUN-21e")
def test_handed_over_while_a_child_runs_the_child_is_stopped_first() -> None:
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40))
    world.ack("choose_path")
    world.deliver()
    assert world.look("w1-anew").state is State.WAITING
    assert world.say(Escalate) == "accepted"
    assert world.workflow.state is State.STOPPING
    (stop,) = [sent for sent in world.sent if sent.verb == "stop"]
    world.send(StopCommand, stop.source, stop.subject, stop.id)
    world.pass_time(10)
    assert world.look("w1-anew").state is State.STOPPED
    assert (world.workflow.state, world.workflow.error_code) == (State.STOPPED, Code.ESCALATED.value)
    assert world.workflow.report["changed"] == ["execute: reprocess w1-anew: done"]  # type: ignore[index]


def test_an_older_record_without_a_report_is_read() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.ESCALATE)
    form = WorkflowForm()
    document = form.write(world.workflow)
    assert form.read(document) == world.workflow
    del document["report"]
    assert form.read(document) == replace(world.workflow, report=None)


def test_an_input_that_is_held_stops_it_with_the_reason() -> None:
    world = RunbookWorld()
    world.begin(**world.marks)
    step = world.workflow.steps[1]
    event = world.take(TakeStep("w1", step.name, step.tries, step.action))
    around = Around(0, SAFE, None, {"orders": "orders is held by h1 of ann: corrected upstream"})
    told = KINDS["runbook"].judge(world.workflow, step, event, around)
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_HELD.value)
    assert "corrected upstream" in told.why
