"""An approved plan is checked again before it starts: two replays into one target never both run, and the refusal names
what has changed.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlRead, ControlUnread, Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.effects import CreateTarget
from recoveryd.recovery.events import EffectFailed, FactsGathered
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts
from recoveryd.replay.spec import ReplaySpec, TargetRef
from tests.builders.core import NOW_MS, command, make_facts, make_spec, make_target
from tests.builders.world import PARAMS, World

HOUR_MS = 3_600_000
ASKING = replace(PARAMS, approval_above_records=10)


def waiting(spec: ReplaySpec | None = None, facts: PlanFacts | None = None) -> World:
    """A world in which `r1` waits for approval."""
    world = World(facts, params=ASKING)
    world.feed(command("replay", spec=spec))
    assert world.recovery().state is State.AWAITING_APPROVAL
    return world


def approve(world: World, subject: str = "r1", offset: int = 1, sent_ms: int = NOW_MS) -> None:
    plan = world.recovery(subject).plan
    assert plan is not None
    world.feed(command("approve", subject, offset=offset, broker_ms=sent_ms, plan_hash=plan.hash))


def test_an_approval_that_came_in_time_while_no_daemon_ran_counts() -> None:
    world = waiting()
    world.now_ms += 25 * HOUR_MS

    def unread() -> None:
        assert world.recovery().state is State.AWAITING_APPROVAL
        approve(world, sent_ms=NOW_MS + 23 * HOUR_MS)

    world.restart_daemon(unread=unread)
    assert world.answers[-1].kind == "accepted"
    assert world.run_until(State.COMPLETED)


@pytest.mark.parametrize("is_late", [False, True])
def test_without_one_it_expires_once_everything_is_read(is_late: bool) -> None:
    world = waiting()
    world.now_ms += 25 * HOUR_MS

    def unread() -> None:
        if is_late:
            approve(world, sent_ms=NOW_MS + 24 * HOUR_MS)
            assert (world.answers[-1].kind, world.answers[-1].code) == ("rejected", Code.APPROVAL_EXPIRED.value)
            assert "2027-01-16T08:00:00.000Z" in world.answers[-1].message
        assert world.recovery().state is State.AWAITING_APPROVAL

    world.restart_daemon(unread=unread)
    assert (world.recovery().state, world.recovery().error_code) == (State.EXPIRED, Code.APPROVAL_EXPIRED.value)
    assert world.launches == []


def test_nor_does_it_expire_while_the_daemon_is_without_the_control_topic() -> None:
    world = waiting()
    world.feed(ControlUnread())
    world.now_ms += 25 * HOUR_MS
    world.second(2)
    assert world.recovery().state is State.AWAITING_APPROVAL
    world.feed(ControlRead())
    assert world.recovery().state is State.EXPIRED


def test_a_clock_that_is_behind_that_of_the_broker_makes_no_approval_late() -> None:
    world = waiting()
    approve(world, sent_ms=NOW_MS + 25 * HOUR_MS)
    assert world.answers[-1].kind == "accepted"


def test_two_approved_replays_into_one_topic_do_not_both_run_one_after_the_other() -> None:
    world = waiting()
    world.feed(command("replay", "r2", offset=1))
    approve(world, "r1", 2)
    assert world.run_until(State.COMPLETED)
    world.facts = replace(world.facts, target=make_target(records=150))
    approve(world, "r2", 3)
    second = world.recovery("r2")
    assert (second.state, second.error_code) == (State.REJECTED, "RCV-2005")
    assert "partition 0 of flights.v2 holds up to 150 records already; approved by //ops/alice" in second.why
    assert world.launches == [("r1", 1)]


def test_two_approved_replays_into_one_topic_do_not_both_run_at_once() -> None:
    world = waiting()
    world.feed(command("replay", "r2", offset=1))
    world.lost_effects = True  # the clusters have not answered yet
    approve(world, "r1", 2)
    approve(world, "r2", 3)
    world.lost_effects = False
    for subject in ("r1", "r2"):
        world.feed(FactsGathered(subject, world.facts))
    assert [(world.recovery(r).state, world.recovery(r).error_code) for r in ("r1", "r2")] == [
        (State.STARTING, None),
        (State.REJECTED, "RCV-2007"),
    ]


def test_facts_from_before_another_replay_ended_are_asked_for_again() -> None:
    world = waiting()
    world.feed(command("replay", "r2", offset=1))
    empty = world.facts
    world.lost_effects = True  # the clusters have not answered yet
    approve(world, "r2", 2)
    world.lost_effects = False
    approve(world, "r1", 3)
    world.run_until(State.COMPLETED)
    assert world.recovery("r2").state is State.AWAITING_APPROVAL
    world.facts = replace(empty, target=make_target(records=150))
    world.feed(FactsGathered("r2", empty))
    assert world.recovery("r2").state is State.REJECTED
    assert world.launches == [("r1", 1)]


def test_facts_that_an_earlier_replay_of_the_same_id_asked_for_plan_nothing() -> None:
    """One that had a plan made only, and was asked twice."""
    world = World()
    world.feed(command("replay", spec=replace(make_spec(), dry_run=True)))
    assert world.recovery().state is State.PLANNED
    early = 2  # the version with which a recovery begins to plan
    world.lost_effects = True  # the clusters have not answered yet
    world.feed(command("replay", offset=1))
    late = FactsGathered("r1", world.facts, early)
    gone = EffectFailed("r1", "gather_facts", 0, Code.SOURCE_TOPIC_MISSING.value, "gone", False, version=early)
    for event in (late, gone):
        world.feed(event)
        assert world.recovery().state is State.PLANNING
    world.feed(FactsGathered("r1", world.facts, world.recovery().version))  # type: ignore[unreachable]
    assert world.recovery().state is State.STARTING


def source(world: World, **changes: object) -> TopicFacts:
    assert world.facts.source is not None
    return replace(world.facts.source, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "facts", "code", "message"),
    [
        ("the source is gone", {"source": None}, "RCV-2001", "does not exist any more"),
        ("the target is gone", {"target": None}, "RCV-1012", "the target topic flights.v2 does not exist any more"),
        ("another target", {"target": replace(make_target(), topic_id="other")}, "RCV-1012", "its id is other"),
        ("a wider target", {"target": make_target(5)}, "RCV-1012", "has 5 partitions, planned were 2"),
        ("records in the target", {"target": make_target(records=1)}, "RCV-2005", "holds up to 1 records"),
        ("log starts", {"source_partitions": make_facts(starts=(7, 0)).source_partitions}, "RCV-1012", "begins at 7"),
        ("a cut log", {"source_partitions": make_facts((100, 49)).source_partitions}, "RCV-1012", "ends at 49 now"),
        ("a target that deletes", {"target": make_target(cleanup_policy="compact")}, "RCV-2008", "is compacted"),
    ],
)
def test_what_is_not_as_planned_is_named(what: str, facts: dict[str, object], code: str, message: str) -> None:
    world = waiting()
    world.facts = replace(world.facts, **facts)  # type: ignore[arg-type]
    approve(world)
    found = world.recovery()
    assert (found.state, found.error_code) == (State.REJECTED, code), what
    assert message in found.why
    assert world.launches == []


@pytest.mark.parametrize(("on_existing", "state"), [("refuse", State.REJECTED), ("append", State.STARTING)])
def test_records_that_came_to_a_partition_beside_the_copy_while_the_plan_waited_are_named(
    on_existing: str, state: State
) -> None:
    """The proof of a target without `append` would count them as extra."""
    plain = make_spec()
    spec = replace(
        plain,
        source=replace(plain.source, partitions=(0,)),
        target=TargetRef("flights.v2", on_existing=on_existing),
    )
    there = replace(make_target(), ends={0: 0, 1: 3})
    world = waiting(spec, make_facts(target=there))
    world.facts = make_facts(target=replace(there, ends={0: 0, 1: 8}))
    approve(world)
    found = world.recovery()
    assert found.state is state
    if state is State.REJECTED:
        assert found.error_code == "RCV-2005"
        assert "partition 1 of flights.v2 got up to 5 records since the plan was made" in found.why


def test_another_source_of_the_same_name_is_named() -> None:
    world = waiting()
    world.facts = replace(world.facts, source=source(world, topic_id="new"))
    approve(world)
    assert "topic flights was deleted and made again: its id is new" in world.recovery().why


def test_a_target_that_is_still_to_be_made_may_be_missing_but_not_be_there_with_records() -> None:
    create = make_spec(target=TargetRef("flights.v2", create=True))
    world = waiting(create, make_facts(no_target=True))
    approve(world)
    assert world.run_until(State.COMPLETED)
    other = waiting(create, make_facts(no_target=True))
    other.facts = replace(other.facts, target=make_target(records=3))
    approve(other)
    assert other.recovery().error_code == "RCV-2005"


def test_a_target_that_another_replay_made_and_fills_meanwhile_is_appended_to() -> None:
    """Both were to create it, and both append."""
    create = make_spec(target=TargetRef("flights.v2", create=True, on_existing="append"))
    world = waiting(create, make_facts(no_target=True))
    world.facts = replace(world.facts, target=replace(make_target(), ends={0: 7, 1: 4}))
    before = world.recovery().plan
    world.failing.add("CreateTarget")
    approve(world)
    after = world.recovery().plan
    assert world.run_until(State.COMPLETED)
    assert (before.target_starts, after.target_starts) == ((), ((0, 7), (1, 4)))
    assert (before.hash, after.target.topic_id) == (after.hash, "target-topic-id")


def test_a_target_that_is_to_be_created_is_taken_as_it_is_only_by_a_copy_that_appends() -> None:
    for on_existing in ("refuse", "append"):
        world = World(make_facts(no_target=True))
        spec = make_spec(target=TargetRef("flights.v2", create=True, on_existing=on_existing))
        world.lost_effects = True
        world.feed(command("replay", spec=spec))
        planned = world.feed(FactsGathered("r1", world.facts))
        assert [e.appends for e in planned.effects if isinstance(e, CreateTarget)] == [on_existing == "append"]


def test_the_answer_of_the_clusters_is_waited_for_over_a_restart_and_not_for_ever() -> None:
    world = waiting()
    world.lost_effects = True
    approve(world)
    assert world.answers[-1].kind == "accepted"
    world.lost_effects = False
    world.restart_daemon()
    assert world.recovery().state is not State.AWAITING_APPROVAL
    other = waiting()
    other.failing.add("GatherFacts")
    approve(other)
    assert other.run_until(State.REJECTED, 200).error_code is not None
    silent = waiting()
    silent.lost_effects = True
    approve(silent)
    assert silent.run_until(State.REJECTED, 200).error_code == "RCV-2011"


def test_a_second_approval_changes_nothing() -> None:
    world = waiting()
    world.lost_effects = True
    approve(world)
    world.feed(command("approve", command_id="again", offset=2, plan_hash=world.recovery().plan.hash))  # type: ignore[union-attr]
    assert [a.kind for a in world.answers[-2:]] == ["accepted", "accepted"]
    assert "already" in world.answers[-1].message


def replay_to(world: World, subject: str, offset: int, **more: object) -> None:
    spec = make_spec(target=TargetRef(f"{subject}.copy"), **more)
    world.feed(command("replay", subject, offset=offset, spec=spec))


def test_an_approval_that_there_is_no_room_for_is_refused_and_the_plan_goes_on_waiting() -> None:
    world = World(params=replace(ASKING, max_active_recoveries=2))
    replay_to(world, "r1", 0)
    approve(world, "r1", 1)
    replay_to(world, "r2", 2)
    replay_to(world, "r3", 3)
    world.lost_effects = True  # what is approved and looked at again counts
    approve(world, "r2", 4)
    assert (world.recovery("r1").state, world.recovery("r2").state) == (State.STARTING, State.AWAITING_APPROVAL)
    approve(world, "r3", 5)
    assert [a.code for a in world.answers] == ["", "", "", "", "", "RCV-1020"]
    assert (world.recovery("r3").state, world.recovery("r3").approved) == (State.AWAITING_APPROVAL, "")
    world.lost_effects = False
    world.run_until(State.COMPLETED)
    plan_hash = world.recovery("r3").plan.hash
    world.feed(command("approve", "r3", "later", offset=6, plan_hash=plan_hash))
    assert world.run_until(State.COMPLETED, recovery_id="r3")


def test_no_more_plans_wait_for_approval_than_recoveries_may_be_active() -> None:
    world = World(params=replace(ASKING, max_active_recoveries=2))
    for number in range(3):
        replay_to(world, f"r{number}", number)
    assert [a.code for a in world.answers] == ["", "", "RCV-1020"]
    assert "2 plans wait for approval" in world.answers[-1].message
    assert world.answers[-1].hint.startswith("Approve or reject one")
    assert world.recovery("r2").state is State.REJECTED


def test_dry_runs_that_are_planned_at_once_are_bounded_and_take_no_room_from_recoveries() -> None:
    world = World(params=replace(PARAMS, max_active_recoveries=2, max_planned_dry_runs=3))
    world.lost_effects = True
    for number in range(4):
        replay_to(world, f"d{number}", number, dry_run=True)
    assert [(a.subject, a.code) for a in world.answers] == [("d3", "RCV-1020")]
    assert "3 dry runs are being planned" in world.answers[0].message
    for number in range(3):
        replay_to(world, f"r{number}", 4 + number)
    assert [(a.subject, a.code) for a in world.answers] == [("d3", "RCV-1020"), ("r2", "RCV-1020")]


def test_a_throttle_lets_no_plan_wait_longer_for_its_approval() -> None:
    world = waiting()
    world.now_ms += 23 * HOUR_MS
    world.feed(command("throttle", offset=1, max_bytes_per_s=1e6))
    assert world.answers[-1].kind == "accepted"
    world.now_ms += HOUR_MS - 1_000
    world.feed(Tick())
    assert world.recovery().state is State.AWAITING_APPROVAL
    world.now_ms += 1_000
    world.feed(Tick())
    assert (world.recovery().state, world.recovery().error_code) == (State.EXPIRED, Code.APPROVAL_EXPIRED.value)


def test_a_clock_that_was_set_back_by_a_year_lets_no_plan_wait_longer_than_a_day() -> None:
    world = waiting()
    world.now_ms -= 365 * 24 * HOUR_MS
    world.restart_daemon()
    world.feed(Tick())
    assert world.recovery().state is State.AWAITING_APPROVAL
    world.now_ms += 24 * HOUR_MS
    world.feed(Tick())
    assert world.recovery().state is State.EXPIRED
