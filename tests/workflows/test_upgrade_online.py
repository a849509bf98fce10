"""`upgrade --mode online` in the core: when the new version is ready, where both are stopped, that each input comes out
once, each step failing and each cut off by the death of the daemon, and the way back.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.collectors.offsets import readers_in_play, topics_in_play
from recoveryd.holds.spec import StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.live.lag.book import Reader
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.units.events import UnitsRead
from recoveryd.units.facts import PartitionEnds
from recoveryd.units.model import ControlKind, Output, Unit
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.commands import Upgrade
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import START_FAILED, Outcome, StepReported
from recoveryd.workflows.model.near import Readiness
from recoveryd.workflows.model.spec import Cutover, ReadyWhen, UpgradeMode, UpgradeSpec
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.builders.core import make_hold
from tests.builders.deciding import make_decider
from tests.workflows.app_world import PARTITIONS, UNIT, Log
from tests.workflows.two_versions import TwoVersions
from tests.workflows.world import report

OLD = replace(UNIT, intermediate=())
LIVE = replace(OLD, name="shop-v2", group="next")
STAGED = replace(LIVE, name="shop-v2-staged", outputs={"staged": Output()})
TAIL = replace(STAGED, name="shop-v2-tail", inputs=("orders.tail",))
BARE = replace(LIVE, stateful=False)
READY = ReadyWhen(lag_ms=5_000, hold_ms=60_000)
STEPS = (
    "start_beside", "await_ready", "look_beside", "stop_beside", "await_beside_empty", "snapshot_beside",
    "await_old_version_there", "stop_application", "await_empty", "snapshot", "create_tail", "copy_tail",
    "snapshot_tail", "set_tail_offsets", "start_on_tail", "await_tail_read", "stop_on_tail", "await_tail_empty", "set_offsets", "delete_tail",
    "compare_offsets", "start_application", "await_caught_up", "look_at_outputs",
)  # fmt: skip
TAKEN = tuple(name for name in STEPS if name not in {"await_ready", "copy_tail"})
BEFORE_THE_END = TAKEN[: TAKEN.index("start_application")]
OF_TAIL = {*STEPS[STEPS.index("create_tail") : STEPS.index("set_offsets")], "delete_tail"}


def two_versions(*units: Unit, suffixes: tuple[str, ...] = ("counts-changelog",)) -> TwoVersions:
    return TwoVersions(*(units or (OLD, LIVE, STAGED, TAIL)), suffixes=suffixes)


def upgrade(world: TwoVersions, workflow: str = "w1", **more: object) -> str:
    given = {"ready": READY, "staged_unit": STAGED.name, "tail_unit": TAIL.name, **more}
    spec = UpgradeSpec(OLD.name, LIVE.name, UpgradeMode.ONLINE, **given)  # type: ignore[arg-type]
    return world.send(lambda meta: Upgrade(meta, spec), subject=workflow)


def begun(**more: object) -> TwoVersions:
    world = two_versions()
    assert upgrade(world, **more) == "accepted", world.answers[-1]
    return world


def places(world: TwoVersions) -> set[tuple[str, int, int]]:
    """Every input that some version has read where readers look."""
    ends = {p: max(g.committed.get(("orders", p), 0) for g in world.groups.values()) for p in range(PARTITIONS)}
    return {("orders", p, offset) for p, end in ends.items() for offset in range(end)}


def each_came_out_once(world: TwoVersions) -> None:
    assert set(world.published.values()) == {1}, [r for r, n in world.published.items() if n > 1][:5]
    assert set(world.published) == places(world)


@pytest.mark.scenario("S-WIKI-8")
def test_the_new_version_takes_over_at_the_cut_and_each_input_comes_out_once() -> None:
    world = begun()
    assert [step.name for step in world.workflow.steps] == list(STEPS)
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert (world.groups["app"].runs, world.groups["next"].runs) == (None, LIVE.name)
    each_came_out_once(world)
    assert set(world.processed["next"].values()) == {1}, "its state knows each input once"
    assert set(world.processed["next"]) == places(world)
    assert "orders.tail" not in world.topics
    cut = {p: world.groups["app"].committed["orders", p] for p in range(PARTITIONS)}
    version = world.workflow.plan.version  # type: ignore[union-attr]
    assert version is not None
    assert {p: stop for p, (_, stop) in version.unfixed_range["orders"].items()} == cut


@pytest.mark.scenario("S-WIKI-8")
def test_at_least_once_what_lies_between_the_two_stops_comes_out_of_both() -> None:
    world = begun(cutover=Cutover.AT_LEAST_ONCE, tail_unit=None)
    assert not {step.name for step in world.workflow.steps} & OF_TAIL
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert set(world.published) == places(world)
    twice = sum(n == 2 for n in world.published.values())
    assert twice > 0
    assert f"{twice:,} offsets between the two stops come out of both versions" in world.workflow.plan.findings  # type: ignore[union-attr]
    assert set(world.processed["next"].values()) == {1}


@pytest.mark.scenario("S-WIKI-8")
def test_a_version_without_state_passes_over_what_lies_between_the_two_stops() -> None:
    world = two_versions(OLD, BARE, STAGED, suffixes=())
    assert upgrade(world, tail_unit=None) == "accepted"
    assert not {step.name for step in world.workflow.steps} & OF_TAIL
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    each_came_out_once(world)


@pytest.mark.scenario("S-WIKI-8")
def test_versions_that_were_stopped_at_the_same_offsets_need_no_tail() -> None:
    world = begun()
    world.produce = lambda count=10: None  # type: ignore[method-assign]
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert not {step.name for step in world.workflow.steps} & OF_TAIL
    each_came_out_once(world)


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize("cutover", list(Cutover))
def test_records_that_came_to_an_empty_partition_between_the_two_stops_are_read_too(cutover: Cutover) -> None:
    world = begun(cutover=cutover, tail_unit=TAIL.name if cutover is Cutover.EXACT else None)
    place = ("orders", 1)

    def was_empty(effect: TakeStep) -> StepReported | None:
        if effect.step != "snapshot_beside":
            return None
        world.groups["next"].committed.pop(place)
        told = world.take(effect)
        return replace(told, logs={"orders": {**told.logs["orders"], 1: PartitionEnds(0, 0)}})

    world.fault = was_empty
    world.people(until="await_caught_up")
    rows = {r.partition: r for r in world.workflow.undo if isinstance(r, OffsetUndo) and r.group == "next"}
    cut = world.groups["app"].committed[place]
    assert (rows[1].to, rows[1].was_set) == (None, cut if cutover is Cutover.EXACT else 0)
    if cutover is Cutover.EXACT:
        [copy] = [sent.data["source"] for sent in world.sent if sent.verb == "replay"]
        assert copy["from"]["offsets"]["1"] == 0  # type: ignore[index]
        assert copy["to"]["offsets"]["1"] == cut  # type: ignore[index]


def looks(world: TwoVersions, seconds: int, *, reads: bool = True) -> None:
    """Both versions read, and the collector looks, so long."""
    for _ in range(seconds // 5):
        world.produce(1)
        world.reads("app")
        if reads:
            world.reads("next")
        world.sample()
        world.pass_time(5)


def waiting() -> TwoVersions:
    """The new version runs, and was near for most of the time that it has to be."""
    world = begun()
    world.people(until="await_ready")
    for _ in range(60):
        if near_since(world) is not None:
            break
        looks(world, 5)
    looks(world, 40)
    assert (world.waits_at, near_since(world) is not None) == ("await_ready", True)
    return world


def near_since(world: TwoVersions) -> object:
    return next(s.evidence.get("near_since") for s in world.workflow.steps if s.name == "await_ready")


def seconds_until_ready(world: TwoVersions) -> int:
    for seconds in range(0, 300, 5):
        if world.waits_at != "await_ready":
            return seconds
        looks(world, 5)
    return 300


@pytest.mark.scenario("S-WIKI-8a")
def test_ready_is_a_small_lag_for_the_whole_time_and_a_larger_one_starts_it_again() -> None:
    assert seconds_until_ready(waiting()) < 45
    world = waiting()
    looks(world, 25, reads=False)
    assert near_since(world) is None
    assert "behind" in world.workflow.why
    assert seconds_until_ready(world) >= 60


def commits_each(world: TwoVersions, every_s: int, seconds: int) -> None:
    """The new version reads all the time, and commits so rarely."""
    for at_s in range(0, seconds, 5):
        if world.waits_at != "await_ready":
            return
        world.produce(1)
        world.reads("app")
        if at_s % every_s == 0:
            world.reads("next")
        world.sample()
        world.pass_time(5)


@pytest.mark.scenario("S-WIKI-8a")
def test_a_version_that_commits_rarely_is_ready_too() -> None:
    """As one of Kafka Streams, each 30 s, with a limit of 5 s."""
    world = begun()
    world.people(until="await_ready")
    commits_each(world, 30, 300)
    assert world.waits_at == "stop_beside", world.workflow.why


@pytest.mark.scenario("S-WIKI-8a")
@pytest.mark.parametrize("read_committed", [True, False])
def test_a_marker_at_the_end_is_no_lag_of_a_version_that_reads_committed_records(*, read_committed: bool) -> None:
    """As `monitor.topics` says of it."""
    world = begun()
    reads = replace(world.params.live.lag, is_read_committed=read_committed)
    live = replace(world.params.live, lags={Reader("main", "orders", "next"): reads})
    world.core = make_decider(replace(world.params, live=live))
    world.people(until="await_ready")
    world.topics["orders"].end += 1
    for _ in range(40):
        world.sample()
        world.pass_time(5)
    assert world.waits_at == ("stop_beside" if read_committed else "await_ready"), world.workflow.why


@pytest.mark.scenario("S-WIKI-8a")
def test_one_that_comes_near_and_goes_all_the_time_is_given_up() -> None:
    world = begun()
    world.people(until="await_ready")
    commits_each(world, 120, 4_000)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)
    assert world.groups["app"].runs == OLD.name


def other_config(world: TwoVersions) -> None:
    units = {**world.units, TAIL.name: replace(TAIL, outputs={"elsewhere": Output()})}
    world.feed(UnitsRead(units))


def more_partitions(world: TwoVersions) -> None:
    world.partitions += 1
    for group in world.groups.values():
        group.committed["orders", PARTITIONS] = world.topics["orders"].end


def paused(world: TwoVersions) -> None:
    assert world.send(Pause) == "accepted"
    looks(world, 30)
    assert world.send(Resume) == "accepted"


@pytest.mark.scenario("S-WIKI-8a")
@pytest.mark.parametrize("change", [other_config, paused, TwoVersions.lead, more_partitions])
def test_what_is_another_plan_now_or_was_not_looked_at_starts_the_time_again(
    change: Callable[[TwoVersions], object],
) -> None:
    world = waiting()
    change(world)
    assert seconds_until_ready(world) >= 55
    assert world.waits_at != "await_ready"


@pytest.mark.scenario("S-WIKI-8a")
def test_a_version_without_members_or_that_nobody_looks_at_is_never_ready() -> None:
    world = waiting()
    world.stop_group("next")
    looks(world, 100)
    assert (world.waits_at, near_since(world)) == ("await_ready", None)
    assert "no members" in world.workflow.why
    world = waiting()
    world.pass_time(200)
    assert (world.waits_at, near_since(world)) == ("await_ready", None)


@pytest.mark.scenario("S-WIKI-8a")
def test_one_that_never_gets_near_is_given_up_and_the_old_version_was_never_touched() -> None:
    world = begun()
    world.people(until="await_ready")
    world.pass_time(4_000, every_s=20)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)
    assert world.groups["app"].runs == OLD.name


@pytest.mark.scenario("S-WIKI-8a")
@pytest.mark.parametrize("down_s", [3_000, 90_000])
def test_time_without_a_daemon_does_not_count_against_one_that_is_near(down_s: int) -> None:
    world = waiting()
    world.now_ms += down_s * 1_000
    world.lead()
    looks(world, 10)
    assert world.waits_at == "await_ready"
    assert seconds_until_ready(world) < 90
    assert world.workflow.state is not State.FAILED


@pytest.mark.scenario("S-WIKI-8a")
@pytest.mark.parametrize("stays", [True, False])
def test_one_that_is_near_at_its_deadline_is_given_up_only_when_it_leaves(*, stays: bool) -> None:
    """It came and went before, so neither is news that would let the time begin anew."""
    world = waiting()
    for near_s in (0, 20):
        looks(world, near_s)
        looks(world, 60, reads=False)
        assert near_since(world) is None
    waits_for = world.workflow.waiting_for
    assert waits_for is not None
    assert waits_for.deadline_ms is not None
    while world.now_ms < waits_for.deadline_ms - 10_000:
        looks(world, 5, reads=False)
    looks(world, 20)
    assert world.now_ms > waits_for.deadline_ms
    assert (world.waits_at, near_since(world) is not None) == ("await_ready", True)
    looks(world, 60, reads=stays)
    if stays:
        assert world.waits_at == "stop_beside", world.workflow.why
    else:
        assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


@pytest.mark.scenario("S-WIKI-8a")
def test_one_that_is_never_near_is_given_up_also_by_one_daemon_after_the_other() -> None:
    world = begun()
    world.people(until="await_ready")
    for _ in range(4):
        world.pass_time(1_000, every_s=20)
        world.now_ms += 3_000_000
        world.lead()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


def gets_on(world: TwoVersions, each: int) -> None:
    """The new version reads `each` offsets of each partition every five seconds, until it is near."""
    reader, end = world.groups["next"], world.topics["orders"].end
    for _ in range(2 * end // each):
        if world.waits_at != "await_ready":
            return
        for p in range(PARTITIONS):
            reader.committed["orders", p] = min(end, reader.committed.get(("orders", p), 0) + each)
        world.sample()
        world.pass_time(5)


@pytest.mark.scenario("S-WIKI-8a")
@pytest.mark.parametrize("is_seen_first", [False, True])
def test_one_that_gets_on_is_waited_for_however_long_it_takes(is_seen_first: bool) -> None:
    world = begun()
    world.topics["orders"].end = 60_000
    world.start(STAGED.name)
    if is_seen_first:
        world.groups["next"].committed.clear()
        world.pass_time(5)
        world.sample()
    world.ack("start_beside")
    began_ms = world.now_ms
    gets_on(world, 100)
    assert world.now_ms - began_ms > 40 * 60_000
    assert world.waits_at == "stop_beside", world.workflow.why


@pytest.mark.scenario("S-WIKI-8a")
def test_a_burst_of_records_after_it_was_near_is_waited_for_too() -> None:
    world = waiting()
    world.topics["orders"].end += 60_000
    began_ms = world.now_ms
    gets_on(world, 100)
    assert world.now_ms - began_ms > 40 * 60_000
    assert world.waits_at == "stop_beside", world.workflow.why


@pytest.mark.scenario("S-WIKI-8a")
def test_a_partition_that_retention_emptied_needs_no_commit() -> None:
    world = begun()
    world.people(until="await_ready")
    sample = world.sample

    def emptied() -> None:
        world.groups["next"].committed.pop(("orders", 1), None)
        sample()

    for log in (world.topics["orders"],):
        log.start = log.end = 500
    world.sample = emptied  # type: ignore[method-assign]
    world.groups["next"].committed["orders", 0] = 500
    for _ in range(30):
        world.sample()
        world.pass_time(5)
    assert world.waits_at == "stop_beside", world.workflow.why


def is_as_before(world: TwoVersions) -> None:
    assert world.groups["app"].runs == OLD.name
    assert world.groups["next"].runs is None
    assert "orders.tail" not in world.topics


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize("name", BEFORE_THE_END)
def test_an_abort_at_any_step_leaves_the_old_version_as_it_was_and_the_next_try_has_a_cut_of_its_own(name: str) -> None:
    world = two_versions()
    world.fail_at(name, retriable=False)
    upgrade(world)
    world.people()
    assert world.workflow.state is State.FAILED, world.workflow.why
    first = dict(world.groups["app"].committed)
    world.fault = lambda _: None
    world.rolls_back()
    is_as_before(world)
    world.people(3)
    each_came_out_once(world)
    if (
        STEPS.index("start_on_tail") < STEPS.index(name) <= STEPS.index("set_offsets")
    ):  # where it fails, nobody started it
        assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
        assert "w1 ended while" in world.answers[-1].message
        world.begin_anew("next")
    assert upgrade(world, "w2") == "accepted", world.answers[-1]
    world.people()
    assert world.look("w2").state is State.COMPLETED, world.look("w2").why
    each_came_out_once(world)
    assert all(at > first[place] for place, at in world.groups["app"].committed.items() if place[0] == "orders")


@pytest.mark.scenario("S-WIKI-8")
def test_after_the_take_over_the_old_version_comes_back_at_the_cut_and_its_answer_says_what_comes_twice() -> None:
    world = begun()
    world.people()
    cut = dict(world.groups["app"].committed)
    beyond = sum(world.groups["next"].committed["orders", p] - cut["orders", p] for p in range(PARTITIONS))
    world.rolls_back()
    is_as_before(world)
    assert sum(n == 2 for n in world.published.values()) == beyond
    assert any("is written once more" in answer.message for answer in world.answers)


def test_one_that_has_taken_over_does_not_get_another_beside_it() -> None:
    world = begun()
    world.people()
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.NOTHING_TO_DO.value)
    assert "shop-v2 has taken over already" in world.answers[-1].message
    world.rolls_back()
    assert upgrade(world, "w3") == "accepted"


def test_a_tail_that_was_read_in_part_is_told_with_the_rollback() -> None:
    world = two_versions()
    world.fail_at("await_tail_read", retriable=False)
    upgrade(world)
    world.people()
    assert world.rollback() == "accepted"
    assert "begin it anew" in world.answers[-1].message


def stopped_before_the_tail_runs() -> TwoVersions:
    """Nobody was seen to run as the tail's unit by then."""
    world = begun()
    world.people(until="start_on_tail")
    assert (world.waits_at, world.stop(), world.workflow.state) == ("start_on_tail", "accepted", State.STOPPED)
    return world


def the_tail_is_read(world: TwoVersions) -> None:
    """Somebody starts it all the same."""
    world.start(TAIL.name)
    world.reads("next")


def reads_and_is_gone(world: TwoVersions) -> None:
    the_tail_is_read(world)
    world.stop_group("next")


def is_killed_before_it_commits(world: TwoVersions) -> None:
    world.topics["next-counts-changelog"].end += 3


def joins_when_the_tail_goes(world: TwoVersions) -> None:
    """After the last look at the group before, which had no members then."""

    def joins(effect: TakeStep) -> StepReported | None:
        if effect.step != "delete_made_topics":
            return None
        told = world.take(effect)
        world.start(TAIL.name)
        return told

    world.fault = joins


def takes_the_topic_away(world: TwoVersions) -> None:
    reads_and_is_gone(world)
    world._drop("orders.tail")


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize(
    "what",
    [the_tail_is_read, reads_and_is_gone, is_killed_before_it_commits, joins_when_the_tail_goes, takes_the_topic_away],
)
def test_a_tail_that_somebody_starts_as_it_is_aborted_is_found_and_the_next_try_begins_anew(
    what: Callable[[TwoVersions], None],
) -> None:
    world = stopped_before_the_tail_runs()
    what(world)
    world.rolls_back()
    is_as_before(world)
    assert "begin shop-v2 anew" in world.workflow.why
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
    assert "w1 ended while" in world.answers[-1].message
    world.begin_anew("next")
    assert upgrade(world, "w2") == "accepted", world.answers[-1]
    world.people(until="stop_beside")
    assert world.send(StopCommand, subject="w2") == "accepted"
    world.rolls_back("w2")
    assert upgrade(world, "w3") == "accepted", "what w2 began with was anew"


@pytest.mark.scenario("S-WIKI-8")
def test_a_tail_that_nobody_started_is_known_not_to_be_read_also_after_a_kill_of_the_daemon_that_took_it_away() -> None:
    world = stopped_before_the_tail_runs()
    world.die_at("delete_made_topics", is_done=True)
    assert world.rollback() == "accepted"
    world.people(6)
    world.live_again()
    world.people()
    assert world.workflow.state is State.ROLLED_BACK
    assert "anew" not in world.workflow.why
    assert upgrade(world, "w2") == "accepted"
    world.people()
    assert world.look("w2").state is State.COMPLETED
    each_came_out_once(world)


def failed_on_the_tail() -> TwoVersions:
    """One instance of the tail's unit reads, the others do not come up, and nobody wants it to be started once more."""
    world = two_versions(OLD, LIVE, STAGED, replace(TAIL, control=ControlKind.KUBERNETES))

    def fails(effect: TakeStep) -> StepReported | None:
        if effect.step != "start_on_tail":
            return None
        world.start(TAIL.name)
        world.reads("next")
        return report(effect, Outcome.NOT_YET, "1 of 3 is ready", evidence={**effect.seen, START_FAILED: True})

    world.fault = fails
    assert upgrade(world) == "accepted", world.answers[-1]
    world.people(until="decide_start_on_tail")
    assert (world.waits_at, world.stop()) == ("decide_start_on_tail", "accepted")
    world.fault = lambda _: None
    return world


@pytest.mark.scenario("S-WIKI-8")
def test_a_start_on_the_tail_that_failed_is_not_forgotten_by_the_question_whether_to_start_it_once_more() -> None:
    world = failed_on_the_tail()
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
    assert world.rollback() == "accepted"
    assert "ahead of its offsets" in world.answers[-1].message
    world.people()
    assert world.workflow.state is State.ROLLED_BACK, world.workflow.why
    is_as_before(world)
    back = {step.name: step.action for step in world.workflow.steps}
    assert isinstance(back["stop_new_version"], AwaitStopped)
    assert back["stop_new_version"].unit == TAIL.name
    assert {"look_at_tail", "await_nobody_on_tail"} <= back.keys()
    assert "begin shop-v2 anew" in world.workflow.why
    assert (upgrade(world, "w3"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
    assert "w1 ended while" in world.answers[-1].message


def test_without_a_rollback_nobody_knows_whether_a_tail_was_read() -> None:
    world = stopped_before_the_tail_runs()
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
    assert "Roll back w1" in world.answers[-1].hint
    world._drop("orders.tail")
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.TARGET_NOT_EMPTY.value)
    assert "may have read it" in world.answers[-1].message


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    world = two_versions()
    world.die_at(name, is_done=is_done)
    upgrade(world)
    world.people(12)
    world.live_again()
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    each_came_out_once(world)
    assert set(world.processed["next"].values()) == {1}


@pytest.mark.parametrize("name", ["stop_new_version", "await_empty_again", "start_old_version", "delete_made_topics"])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_on_the_way_back_goes_on_there(name: str, is_done: bool) -> None:
    world = two_versions()
    world.fail_at("await_tail_read", retriable=False)
    upgrade(world)
    world.people()
    world.die_at(name, is_done=is_done)
    assert world.rollback() == "accepted"
    world.people(6)
    world.live_again()
    world.people()
    assert world.workflow.state is State.ROLLED_BACK, world.workflow.why
    is_as_before(world)


def commits(world: TwoVersions, step: str, group: str) -> None:
    """Somebody commits for a group, right before this step."""

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == step:
            world.groups[group].committed["orders", 1] += 1
        return None

    world.fault = fault


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize(("step", "group"), [("compare_offsets", "app"), ("set_offsets", "next")])
def test_a_version_that_somebody_starts_in_between_ends_it(step: str, group: str) -> None:
    world = begun()
    commits(world, step, group)
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert world.groups["next"].runs is None


def test_topics_in_between_that_the_new_version_made_for_itself_end_it_before_the_old_one_is_stopped() -> None:
    world = begun()
    world.suffixes = ("counts-changelog", "by-key-repartition")
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.VERSIONS_INCOMPATIBLE.value)
    assert world.groups["app"].runs == OLD.name


@pytest.mark.parametrize(("change", "says"), [(other_config, TAIL.name), (more_partitions, "orders has 3 partitions")])
def test_nothing_is_stopped_for_a_plan_that_was_made_of_something_else(
    change: Callable[[TwoVersions], object], says: str
) -> None:
    world = waiting()
    change(world)
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert says in world.workflow.why
    assert (world.groups["app"].runs, world.groups["next"].runs) == (OLD.name, STAGED.name)


@pytest.mark.parametrize("change", [other_config, more_partitions])
def test_a_plan_that_was_approved_is_not_carried_out_for_something_else(
    change: Callable[[TwoVersions], object],
) -> None:
    world = two_versions(replace(OLD, approvers=("//ops/kim",)), LIVE, STAGED, TAIL)
    assert upgrade(world) == "accepted"
    change(world)
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.STALE_PLAN.value)


def test_units_that_do_not_fit_together_any_more_when_it_is_approved_are_refused() -> None:
    world = two_versions(replace(OLD, approvers=("//ops/kim",)), LIVE, STAGED, TAIL)
    assert upgrade(world) == "accepted"
    world.feed(UnitsRead({**world.units, STAGED.name: replace(STAGED, outputs={"totals": Output()})}))
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.INVALID_VALUE.value)
    assert "writes totals" in world.workflow.why


@pytest.mark.scenario("S-WIKI-8")
def test_a_tail_is_read_from_its_start_whatever_the_new_version_does_without_a_commit() -> None:
    world = begun()
    at_step(world, "create_tail", lambda w: setattr(w, "begins_at_end", True))
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert set(world.processed["next"]) == places(world)


@pytest.mark.scenario("S-WIKI-8")
def test_the_old_version_begins_at_the_cut_where_its_commits_went_since() -> None:
    world = begun()
    world.people()
    cut = dict(world.groups["app"].committed)
    world.groups["app"].committed.clear()
    world.rolls_back()
    assert min(n for r, n in world.published.items()) == 1
    before = [r for r, n in world.published.items() if n > 1 and r[2] < cut[r[0], r[1]]]
    assert before == [], "nothing in front of the cut comes out again"


def test_where_somebody_committed_for_the_old_version_it_stays_there() -> None:
    world = begun()
    world.people()
    at = world.groups["app"].committed["orders", 1] + 3
    world.groups["app"].committed = {("orders", 1): at}
    world.produce(20)
    noted: dict[tuple[str, int], int] = {}
    at_step(world, "start_old_version", lambda w: noted.update(w.groups["app"].committed))
    world.rolls_back()
    cut = world.workflow.plan.version.unfixed_range["orders"]  # type: ignore[union-attr]
    assert noted == {("orders", 0): cut[0][1], ("orders", 1): at}


def test_how_the_old_version_ran_is_known_also_where_it_was_not_stopped_yet() -> None:
    world = begun()
    before = {"replicas": 3}

    def stops(effect: TakeStep) -> StepReported | None:
        if effect.step != "stop_application":
            return None
        return report(effect, Outcome.NOT_YET, "its pods end", evidence={"before": before})

    world.fault = stops
    world.people(until="stop_application")
    world.pass_time(30)
    assert world.stop() == "accepted"
    world.fault = lambda _: None
    assert world.rollback() == "accepted"
    [start] = [s.action for s in world.workflow.steps if s.name == "start_old_version"]
    assert isinstance(start, AwaitStarted)
    assert start.before == before


def test_a_hold_that_comes_meanwhile_does_not_forbid_the_abort() -> None:
    world = begun()
    world.people(until="stop_application")
    assert world.stop() == "accepted"
    assert world.send(lambda meta: StartHold(meta, make_hold("orders")), subject="h1") == "accepted"
    world.rolls_back()
    is_as_before(world)


def test_a_tail_that_was_made_by_a_step_that_failed_is_taken_away() -> None:
    world = begun()

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "create_tail":
            return None
        made = world.take(effect).undo
        return report(effect, Outcome.FAILED, "no answer", code=Code.CLUSTER_UNREACHABLE.value, undo=made)

    world.fault = fault
    world.people()
    assert (world.workflow.state, "orders.tail" in world.topics) == (State.FAILED, True)
    world.fault = lambda _: None
    world.rolls_back()
    is_as_before(world)


@pytest.mark.parametrize(("set_back_ms", "set_back"), [(0, 0), (86_400_000, 0), (0, 1_000), (86_400_000, 1_000)])
def test_an_upgrade_is_not_taken_back_beneath_a_later_one(set_back_ms: int, set_back: int) -> None:
    """Also when the clock was set back between the two, or the control topic was made anew."""
    third = replace(LIVE, name="shop-v3", group="third")
    staged = replace(third, name="shop-v3-staged", outputs={"staged-3": Output()})
    tail = replace(staged, name="shop-v3-tail", inputs=("orders.tail-3",))
    world = two_versions(OLD, LIVE, STAGED, TAIL, third, staged, tail)
    world.offset += set_back
    assert upgrade(world) == "accepted"
    world.people()
    more = {"staged_unit": staged.name, "tail_unit": tail.name}
    spec = UpgradeSpec(LIVE.name, third.name, UpgradeMode.ONLINE, ready=READY, **more)  # type: ignore[arg-type]
    world.now_ms -= set_back_ms
    world.offset -= min(set_back, world.offset)
    world.lead()
    assert world.send(lambda meta: Upgrade(meta, spec), subject="w2") == "accepted"
    world.people()
    assert world.look("w2").state is State.COMPLETED, world.look("w2").why
    assert (world.rollback(), world.answers[-1].code) == ("rejected", Code.IN_USE.value)
    assert "w2" in world.answers[-1].message
    world.rolls_back("w2")
    world.rolls_back()
    assert [group.runs for group in world.groups.values()] == [OLD.name, None, None]


def at_step(world: TwoVersions, step: str, change: Callable[[TwoVersions], object]) -> None:
    """Something happens right before this step is carried out for the first time."""
    left = [change]

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == step and left:
            left.pop()(world)
        return None

    world.fault = fault


@pytest.mark.scenario("S-WIKI-8")
@pytest.mark.parametrize("cutover", list(Cutover))
def test_a_partition_that_was_added_before_the_old_version_stopped_is_set_for_the_new_one_too(cutover: Cutover) -> None:
    world = two_versions(OLD, BARE, STAGED, suffixes=())
    assert upgrade(world, tail_unit=None, cutover=cutover) == "accepted"
    at_step(world, "stop_application", more_partitions)
    world.people(until="await_caught_up")
    rows = {r.partition: r for r in world.workflow.undo if isinstance(r, OffsetUndo) and r.group == "next"}
    cut = world.groups["app"].committed["orders", PARTITIONS]
    assert (rows[PARTITIONS].to, rows[PARTITIONS].was_set) == (None, cut if cutover is Cutover.EXACT else 0)


@pytest.mark.parametrize(("step", "runs"), [("snapshot_beside", OLD.name), ("snapshot", None)])
def test_a_partition_that_no_tail_has_ends_it(step: str, runs: str | None) -> None:
    world = begun()
    at_step(world, step, more_partitions)
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "orders.tail" in world.workflow.why
    assert world.groups["app"].runs == runs
    world.fault = lambda _: None
    world.rolls_back()
    is_as_before(world)


def test_one_that_turns_out_to_keep_state_is_not_let_pass_over_what_lies_between() -> None:
    world = two_versions(OLD, BARE, STAGED)
    assert upgrade(world, tail_unit=None) == "accepted"
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.VERSIONS_INCOMPATIBLE.value)
    assert "next-counts-changelog" in world.workflow.why
    assert world.groups["app"].runs == OLD.name
    world.rolls_back()
    assert upgrade(world, "w2", tail_unit=None) == "rejected", "it is known before now"
    assert "next-counts-changelog" in world.answers[-1].message


@pytest.mark.scenario("S-WIKI-8")
def test_the_first_record_of_a_partition_may_come_when_both_are_stopped() -> None:
    world = begun()
    place = ("orders", 1)

    def first_record(effect: TakeStep) -> StepReported | None:
        if effect.step not in {"snapshot_beside", "snapshot", "compare_offsets"}:
            return None
        world.groups["app" if effect.step != "snapshot_beside" else "next"].committed.pop(place, None)
        told = world.take(effect)
        return replace(
            told, logs={"orders": {**told.logs["orders"], 1: PartitionEnds(0, int(effect.step == "snapshot"))}}
        )

    world.fault = first_record
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    rows = {r.partition: r for r in world.workflow.undo if isinstance(r, OffsetUndo) and r.group == "next"}
    assert rows[1].was_set == 0, "the first record is the new version's"


@pytest.mark.parametrize(
    ("units", "more", "code", "says"),
    [
        ((OLD, replace(LIVE, group="app"), STAGED, TAIL), {}, Code.INVALID_VALUE, "side by side"),
        ((OLD, LIVE, STAGED, TAIL), {"staged_unit": None}, Code.MISSING_FIELD, "staged_unit"),
        ((OLD, LIVE, STAGED, TAIL), {"tail_unit": None}, Code.MISSING_FIELD, "tail_unit"),
        ((OLD, LIVE, STAGED, TAIL), {"cutover": Cutover.AT_LEAST_ONCE}, Code.INVALID_VALUE, "tail_unit"),
        ((OLD, LIVE, STAGED, TAIL), {"staged_unit": "shop-v3"}, Code.UNKNOWN_UNIT, "staged_unit"),
        ((OLD, LIVE, replace(STAGED, group="third"), TAIL), {}, Code.INVALID_VALUE, "not the same application"),
        ((OLD, LIVE, replace(STAGED, outputs=OLD.outputs), TAIL), {}, Code.INVALID_VALUE, "outputs of its own"),
        ((OLD, LIVE, replace(STAGED, inputs=("log",)), TAIL), {}, Code.INVALID_VALUE, "does not read what"),
        ((OLD, replace(LIVE, inputs=("log",)), STAGED, TAIL), {}, Code.INVALID_VALUE, "does not"),
        ((OLD, LIVE, STAGED, replace(TAIL, inputs=("orders",))), {}, Code.INVALID_VALUE, "input of its own"),
        ((replace(OLD, intermediate=("steps",)), LIVE, STAGED, TAIL), {}, Code.VERSIONS_INCOMPATIBLE, "under way"),
    ],
)
def test_units_that_do_not_fit_together_are_refused(
    units: tuple[Unit, ...], more: dict[str, object], code: Code, says: str
) -> None:
    world = two_versions(*units)
    assert (upgrade(world, **more), world.answers[-1].code) == ("rejected", code.value)
    assert says in world.answers[-1].message + world.answers[-1].hint


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda w: w.topics.update({"orders.tail": Log("t", 0, 3)}), Code.TARGET_NOT_EMPTY),
        (lambda w: w.topics.pop("orders"), Code.SOURCE_TOPIC_MISSING),
        (lambda w: setattr(w, "suffixes", ("counts-changelog", "x")), None),
    ],
)
def test_what_the_cluster_says_may_be_in_the_way(change: Callable[[TwoVersions], object], code: Code | None) -> None:
    world = two_versions()
    change(world)
    assert upgrade(world) == ("accepted" if code is None else "rejected")
    assert code is None or world.answers[-1].code == code.value


@pytest.mark.parametrize("field", ["staged_unit", "tail_unit", "ready"])
def test_fields_that_mean_nothing_offline_are_refused(field: str) -> None:
    world = two_versions()
    value = READY if field == "ready" else STAGED.name
    spec = UpgradeSpec(OLD.name, LIVE.name, **{field: value})  # type: ignore[arg-type]
    assert world.send(lambda meta: Upgrade(meta, spec)) == "rejected"
    assert field in world.answers[-1].message


def test_a_unit_that_left_the_config_before_the_approval_is_told() -> None:
    old = replace(OLD, approvers=("//ops/kim",))
    world = two_versions(old, LIVE, STAGED, TAIL)
    assert upgrade(world) == "accepted"
    world.feed(UnitsRead({name: unit for name, unit in world.units.items() if name != TAIL.name}))
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.UNKNOWN_UNIT.value)


def test_both_groups_are_taken_and_owners_are_told_how_the_new_version_begins() -> None:
    world = begun()
    told = "\n".join(world.workflow.plan.findings)  # type: ignore[union-attr]
    assert "begins by its auto.offset.reset, with empty state" in told
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.IN_USE.value)


@pytest.mark.scenario("S-WIKI-8a")
def test_the_collector_looks_at_the_new_version_only_while_it_is_waited_for() -> None:
    world = begun()
    assert readers_in_play(world.state, ()) == []
    world.people(until="await_ready")
    assert readers_in_play(world.state, ()) == [Reader("main", "orders", "next")]
    assert topics_in_play(world.state, ()) == [("main", "orders")]
    world.people()
    assert (world.workflow.state, readers_in_play(world.state, ())) == (State.COMPLETED, [])
    assert world.state.of(WORKFLOWS).readiness == Readiness(), "nothing of it is kept"


@pytest.mark.parametrize("cutover", list(Cutover))
def test_a_hold_on_an_input_is_told_before_anything_is_started_however_often_readers_see_it(cutover: Cutover) -> None:
    world = two_versions()
    assert world.send(lambda meta: StartHold(meta, make_hold("orders")), subject="h1") == "accepted"
    tail = TAIL.name if cutover is Cutover.EXACT else None
    assert (upgrade(world, cutover=cutover, tail_unit=tail), world.answers[-1].code) == (
        "rejected", Code.TOPIC_HELD.value,
    )  # fmt: skip


def test_a_hold_on_an_input_that_comes_once_its_offsets_are_set_does_not_stop_the_take_over() -> None:
    """What is left to be changed is the tail, which it made itself."""
    world = begun()

    def comes(effect: TakeStep) -> StepReported | None:
        if effect.step != "set_offsets":
            return None
        world.fault = lambda _: None
        told = world.take(effect)
        assert world.send(lambda meta: StartHold(meta, make_hold("orders")), subject="h1") == "accepted"
        return told

    world.fault = comes
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert "orders.tail" not in world.topics
    each_came_out_once(world)


def test_who_may_approve_what_is_done_to_the_new_version_is_asked_too() -> None:
    """Also where they share neither group nor output."""
    new = replace(LIVE, outputs={"totals.v2": Output()}, approvers=("//ops/kim",))
    world = two_versions(OLD, new, STAGED, TAIL)
    assert upgrade(world) == "accepted"
    assert world.workflow.state is State.AWAITING_APPROVAL
    assert world.approve("//ops/eve") == "rejected"
    assert world.approve("//ops/kim") == "accepted"
    assert world.workflow.state is State.WAITING
