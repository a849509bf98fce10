"""Runs that continue each other: each record in one of them, whatever dies in between."""

import random
from dataclasses import replace

import pytest

from recoveryd.cli.send.again import begun_by, rest_of
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import ControlUnread, Event, Tick
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.effects import GatherFacts, ReadLedger
from recoveryd.recovery.events import LedgerRead
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd_jobs.contract import DriverHeartbeat, Verification
from tests.builders.core import TARGET_ID, command, to_document
from tests.builders.deciding import make_decider
from tests.builders.world import PARAMS
from tests.schedules.world import CONTINUED, REPLAY, ScheduleWorld


def covered(world: ScheduleWorld) -> dict[int, list[tuple[int, int]]]:
    """By partition: the ranges that runs copied, in the order of the runs, without the empty ones."""
    found: dict[int, list[tuple[int, int]]] = {}
    for run in world.runs():
        plan = world.recovery(run).plan
        if plan is None:
            continue
        for row in plan.partitions:
            end = world.receipts.get(run, {}).get(row.partition, row.start)
            if end > row.start:
                found.setdefault(row.partition, []).append((row.start, end))
    return found


def assert_seamless(world: ScheduleWorld, first: int = 0) -> None:
    for ranges in covered(world).values():
        assert [start for start, _ in ranges] == [first, *(end for _, end in ranges[:-1])], ranges


def settle(world: ScheduleWorld) -> None:
    """Let the last run end, and no other begin."""
    world.command("unschedule")
    for _ in range(300):
        if world.schedule().run is None:
            return
        world.second()
    raise AssertionError(world.schedule().why)


@pytest.mark.scenario("S-WIKI-6")
def test_the_next_run_starts_exactly_where_the_last_one_ended() -> None:
    world = ScheduleWorld(ends=(1_000, 1_000), speed=500)
    world.add(data=CONTINUED)
    world.second(60)
    assert world.schedule().last_end is not None
    assert world.schedule().last_end.offsets == {0: 1_000, 1: 1_000}
    world.ends = {0: 1_500, 1: 1_000}
    world.minutes(2)
    assert world.sent[1].data["source"]["from"] == {
        "offsets": {"0": 1_000, "1": 1_000}, "others": "earliest", "topic_id": "source-topic-id",
    }  # fmt: skip
    assert covered(world) == {0: [(0, 1_000), (1_000, 1_500)], 1: [(0, 1_000)]}


@pytest.mark.scenario("S-WIKI-6")
@pytest.mark.parametrize("seed", range(6))
def test_ten_runs_under_live_traffic_and_kills_leave_nothing_out_and_copy_nothing_twice(seed: int) -> None:
    chance = random.Random(seed)
    world = ScheduleWorld(ends=(200, 80), speed=40)
    world.live_per_s = 7
    world.add(data=CONTINUED, max_runtime="50s")
    while len(world.runs()) < 10:
        world.second(chance.randrange(1, 25))
        if chance.random() < 0.3:
            world.swallows = chance.choice((0, 0, 1))
            world.restart(down_s=chance.randrange(1, 40), applications_die=chance.random() < 0.5)
    settle(world)
    assert_seamless(world)
    last = world.schedule().last_end
    assert last is not None
    ranges = covered(world)
    assert last.offsets == {partition: rows[-1][1] for partition, rows in ranges.items()}


@pytest.mark.scenario("S-WIKI-6")
def test_a_run_that_was_stopped_early_is_continued_where_it_stopped() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=50)
    world.add(data=CONTINUED, max_runtime="20s")
    world.minutes(3)
    settle(world)
    assert world.schedule().counts.stopped >= 2
    assert_seamless(world)


def test_a_run_that_was_refused_moves_nothing() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED | {"plan_hash": "sha256:stale"})
    world.minutes(2)
    assert world.schedule().last_end is None
    world.command("unschedule")
    assert covered(world) == {}


def test_a_run_whose_plan_nobody_approved_moves_nothing() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500, params=replace(PARAMS, approval_above_records=1))
    world.add(data=CONTINUED)
    world.second(35)
    (run,) = world.runs()
    plan = world.recovery(run).plan
    assert plan is not None
    assert world.recovery(run).state is State.AWAITING_APPROVAL
    world.command("reject", run, {"plan_hash": plan.hash})
    world.second(2)
    assert (world.schedule().run, world.schedule().last_end) == (None, None)
    assert world.schedule().counts.refused == 1


def test_the_first_run_starts_where_the_schedule_says() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    first = REPLAY["source"] | {"from": {"schedule": "last_end", "first": {"offset": 100}}}
    world.add(data=CONTINUED | {"source": first})
    world.second(80)
    world.ends = {0: 700, 1: 700}
    world.minutes(2)
    settle(world)
    assert_seamless(world, first=100)


class Timed(ScheduleWorld):
    """The time at which the first run begins is that of offset 100."""

    def _facts(self) -> PlanFacts:
        facts = super()._facts()
        return replace(facts, source_partitions=tuple(replace(p, start_at=100) for p in facts.source_partitions))


@pytest.mark.parametrize("first", ["-1d", "2026-11-21T02:00:00.001Z"])
def test_what_is_older_than_the_time_at_which_the_first_run_began_is_left_out_by_all(first: str) -> None:
    """Also behind where the first run ended, so that it does not matter where that was."""
    world = Timed(ends=(3_000, 3_000), speed=50)
    source = REPLAY["source"] | {"from": {"schedule": "last_end", "first": first}}
    world.add(data=CONTINUED | {"source": source}, max_runtime="20s")
    world.minutes(4)
    world.restart()
    world.minutes(1)
    settle(world)
    plans = [world.recovery(run).plan for run in world.runs()]
    assert len(plans) > 3
    assert world.schedule().counts.stopped >= 2
    since_ms = plans[0].from_time_ms if plans[0] else None
    assert since_ms is not None
    assert {plan.from_time_ms for plan in plans if plan} == {since_ms}
    assert world.sent[1].data["source"]["from"]["since"] == format_time_ms(since_ms)
    assert_seamless(world, first=100)
    world.add(data=CONTINUED | {"source": source})
    world.second(60)
    plan = world.recovery(world.runs()[-1]).plan
    assert plan is not None
    assert plan.from_time_ms == since_ms, "nor if it is made again"


def test_a_schedule_goes_on_behind_a_retry_that_left_out_the_same_by_its_time() -> None:
    world = FilteringTimed(ends=(3_000, 100), speed=50)
    source = REPLAY["source"] | {"from": {"schedule": "last_end", "first": "-1d"}}
    world.add("*/5 * * * *", data=CONTINUED | {"source": source}, max_runtime="20s")
    world.second(90)
    (run,) = world.runs()
    assert world.recovery(run).state is State.STOPPED
    world.command("unschedule")
    retry(world, run, "other")
    world.run_until(State.COMPLETED, recovery_id="other")
    plan = world.recovery("other").plan
    assert plan is not None
    assert plan.from_time_ms is not None
    assert sum(row.filtered for row in world.recovery("other").progress.partitions) == 5
    answer = world.add(data=CONTINUED | {"source": source})
    assert "it goes on behind other" in answer.message


def test_partitions_that_are_added_are_taken_from_their_beginning() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.ends, world.log_starts = {0: 500, 1: 600, 2: 70}, {0: 0, 1: 0, 2: 0}
    world.minutes(2)
    settle(world)
    assert covered(world) == {0: [(0, 500)], 1: [(0, 500), (500, 600)], 2: [(0, 70)]}


def test_a_topic_created_anew_is_not_continued() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.topic_id = "another"
    before = covered(world)
    world.minutes(1)
    assert covered(world) == before
    assert world.told("schedule_run_ended")[-1].data["code"] == Code.TOPIC_RECREATED.value


def test_a_target_created_anew_is_not_continued() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.ends = {0: 800, 1: 800}
    world.target_id = "another"
    before = covered(world)
    world.minutes(1)
    assert world.sent[1].data["target"] == {**CONTINUED["target"], "topic_id": TARGET_ID}
    assert covered(world) == before, "what lay in the topic before is in no other one"
    assert world.told("schedule_run_ended")[-1].data["code"] == Code.TOPIC_RECREATED.value
    assert world.schedule().last_end is not None
    assert world.schedule().last_end.offsets == {0: 500, 1: 500}


def test_records_that_were_deleted_before_their_run_are_not_passed_over_silently() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.ends, world.log_starts = {0: 900, 1: 900}, {0: 600, 1: 0}
    world.minutes(1)
    assert world.told("schedule_run_ended")[-1].data["code"] == Code.OFFSET_OUTSIDE_LOG.value
    assert world.schedule().last_end is not None
    assert world.schedule().last_end.offsets == {0: 500, 1: 500}


def lose(world: ScheduleWorld, starts: dict[int, int], ends: dict[int, int]) -> str:
    """The run that goes on, whose source lacks something from now on; its driver has met it."""
    run = world.runs()[-1]
    world.log_starts |= starts
    world.ends |= ends
    world.applications[run].alive = False
    attempt = world.recovery(run).attempt.number
    world.feed(DriverHeartbeat(run, attempt, "failed", 1, None, "data_lost", "offsets of partition 0 are gone"))
    return run


def assert_over(world: ScheduleWorld, code: Code) -> None:
    """It has failed with this code, nothing more is sent, and only who says where it is to begin makes it again."""
    schedule = world.schedule()
    assert (schedule.state, schedule.error_code) == (State.FAILED, code.value), schedule.why
    runs = world.runs()
    world.minutes(3)
    assert world.runs() == runs
    again = world.add(data=CONTINUED)
    assert (again.kind, again.code, "cannot go on" in again.message) == ("rejected", Code.ID_IN_USE.value, True)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [({0: 3_000}, {}), ({}, {0: 900}), ({}, {0: 400})],
    ids=["deleted", "cut back behind the position", "cut back before it"],
)
def test_no_run_goes_on_behind_a_loss_by_itself(starts: dict[int, int], ends: dict[int, int]) -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=50)
    world.add(data=CONTINUED)
    world.second(45)
    run = lose(world, starts, ends)
    world.run_until(State.FAILED, recovery_id=run)
    copied = world.receipts[run][0]
    assert 400 < copied < 900
    world.second(2)
    world.ends[0] = 20_000  # what is written now has the offsets of what was lost
    assert_over(world, Code.DATA_LOST)
    last = world.schedule().last_end
    assert last is not None
    assert last.offsets == {0: copied, 1: 0}, "where the loss begins"
    assert f"records that {run} was to copy are gone" in world.schedule().why


def test_nor_does_a_schedule_that_was_ended_before_its_run_met_the_loss() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=50)
    world.add(data=CONTINUED)
    world.second(45)
    world.command("unschedule")
    run = lose(world, {0: 3_000}, {})
    world.run_until(State.FAILED, recovery_id=run)
    world.second(2)
    assert (world.schedule().state, world.schedule().error_code) == (State.STOPPED, None)
    world.restart()
    answer = world.add(data=CONTINUED)
    assert (answer.kind, "records that its last run was to copy are gone" in answer.message) == ("rejected", True)


class Losing(ScheduleWorld):
    """Ten records of each range that began are gone, which no lane fails for."""

    def _ledger(self, effect: ReadLedger) -> LedgerRead:
        read = super()._ledger(effect)
        rows = tuple(replace(row, copied=row.copied - 10, lost=10) if row.copied else row for row in read.partitions)
        return replace(read, partitions=rows)


def test_a_loss_that_the_command_accepts_is_passed() -> None:
    world = Losing(ends=(1_000, 0), speed=500)
    world.add(data=CONTINUED | {"on_data_loss": "continue"})
    world.second(80)
    world.ends[0] = 1_500
    world.minutes(2)
    assert world.schedule().state is State.RUNNING
    assert covered(world)[0] == [(0, 1_000), (1_000, 1_500)]


def test_a_log_that_was_cut_back_between_two_runs_is_not_continued_once_it_has_grown_again() -> None:
    world = ScheduleWorld(ends=(1_000, 1_000), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.ends[0] = 900
    world.minutes(1)
    assert world.told("schedule_run_ended")[-1].data["code"] == Code.SOURCE_CUT_BACK.value
    assert "partition 0 ends at 900, before offset 1000" in world.schedule().why
    world.ends[0] = 5_000
    assert_over(world, Code.SOURCE_CUT_BACK)
    assert covered(world) == {0: [(0, 1_000)], 1: [(0, 1_000)]}


@pytest.mark.parametrize("end", [900, 1_200])
def test_nor_one_that_was_cut_back_while_its_run_waited_for_approval(end: int) -> None:
    """Also one that has grown past the last end since, where the plan saw more than there is now."""
    world = ScheduleWorld(ends=(1_000, 0), speed=500)
    world.add("*/5 * * * *", data=CONTINUED)
    world.second(90)
    world.params = replace(PARAMS, approval_above_records=1)
    world.decider = make_decider(world.params)
    world.ends[0] = 1_500
    world.minutes(5)
    run = world.runs()[-1]
    plan = world.recovery(run).plan
    assert plan is not None
    assert world.recovery(run).state is State.AWAITING_APPROVAL
    world.ends[0] = end
    world.command("approve", run, {"plan_hash": plan.hash})
    world.second(5)
    world.ends[0] = 5_000
    assert_over(world, Code.SOURCE_CUT_BACK)


def test_no_run_is_put_behind_a_copy_that_is_not_what_its_source_holds_unless_somebody_says_so() -> None:
    world = ScheduleWorld(ends=(1_000, 0), speed=500)
    world.verdict = Verification("mismatch", 1_000, 999, "", (), "")
    world.add(data=CONTINUED)
    world.minutes(3)
    schedule = world.schedule()
    assert (schedule.state, schedule.error_code, len(world.runs())) == (
        State.FAILED, Code.VERIFICATION_MISMATCH.value, 1,
    )  # fmt: skip
    world.verdict, world.ends[0] = None, 1_500
    assert world.add(data=CONTINUED).kind == "accepted"
    world.minutes(2)
    settle(world)
    assert covered(world)[0] == [(0, 1_000), (1_000, 1_500)]


class NoLedger(ScheduleWorld):
    """The ledger cannot be read as a whole."""

    is_broken = False

    def _ledger(self, effect: ReadLedger) -> LedgerRead:
        read = super()._ledger(effect)
        if not self.is_broken:
            return read
        return LedgerRead(read.recovery, read.attempt, read.fenced, read.partitions, ("a gap",), read.sequence)


def test_after_an_end_that_is_not_known_exactly_nothing_is_continued() -> None:
    world = NoLedger(ends=(10_000, 0), speed=50)
    world.add(data=CONTINUED, max_runtime="20s")
    world.second(45)
    world.is_broken = True
    world.minutes(3)
    schedule = world.schedule()
    assert (schedule.state, schedule.error_code) == (State.FAILED, Code.LAST_END_UNKNOWN.value)
    assert len(world.runs()) == 1
    assert world.add(data=CONTINUED).code == Code.ID_IN_USE.value


def test_one_that_was_made_again_before_its_record_went_goes_on_also_when_that_is_read_later() -> None:
    world = ScheduleWorld(ends=(1_000, 1_000), speed=500)
    world.add(data=CONTINUED)
    world.second(60)
    world.command("unschedule")
    world.feed(ControlUnread())
    world.now_ms += PARAMS.keep_terminal_ms
    world.feed(Tick())
    assert world.add(data=CONTINUED).kind == "accepted"
    assert world.schedule().last_end is not None
    assert world.schedule().last_end.offsets == {0: 1_000, 1: 1_000}


def test_a_schedule_that_was_ended_keeps_its_reason_whatever_becomes_of_its_last_run() -> None:
    world = NoLedger(ends=(10_000, 0), speed=50)
    world.add(data=CONTINUED, max_runtime="20s")
    world.second(45)
    world.command("unschedule")
    ended = world.schedule()
    world.is_broken = True
    world.minutes(3)
    schedule = world.schedule()
    assert schedule.run is None
    assert schedule.last_run is not None
    assert (schedule.state, schedule.error_code, schedule.why) == (State.STOPPED, None, ended.why)


def test_a_schedule_that_is_made_again_goes_on_where_the_old_one_stopped() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.command("unschedule")
    world.ends = {0: 800, 1: 800}
    world.add("*/2 * * * *", data=CONTINUED)
    world.minutes(4)
    settle(world)
    assert_seamless(world)
    assert covered(world)[0][-1][1] == 800


def test_a_schedule_of_another_target_begins_anew() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add(data=CONTINUED)
    world.second(80)
    world.command("unschedule")
    world.add(data=CONTINUED | {"target": {"topic": "flights.v3", "on_existing": "append"}})
    assert world.schedule().last_end is None


def stopped(world: ScheduleWorld, cron: str = "*/5 * * * *") -> str:
    """The run of a schedule, half done; the schedule is ended."""
    world.add(cron, data=CONTINUED, max_runtime="20s")
    world.second(90)
    (run,) = world.runs()
    assert world.recovery(run).state is State.STOPPED
    assert 0 < world.receipts[run][0] < world.ends[0]
    world.command("unschedule")
    return run


def retry(world: ScheduleWorld, run: str, new: str = "again", **limits: str) -> None:
    """What `recoveryctl retry` sends."""
    document = to_document(world.recovery(run))
    verb, data = begun_by(document)
    data, _ = rest_of(document, data)
    world.command(verb, new, {**data, "limits": {**data["limits"], "max_runtime": None, **limits}})


def test_a_schedule_that_is_made_again_goes_on_behind_a_retry_of_its_last_run() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    retry(world, stopped(world))
    world.run_until(State.COMPLETED, recovery_id="again")
    world.ends = {0: 3_400, 1: 200}
    answer = world.add("*/2 * * * *", data=CONTINUED)
    world.minutes(4)
    settle(world)
    assert_seamless(world)
    assert "it goes on behind again" in answer.message
    assert [covered(world)[p][-1][1] for p in (0, 1)] == [3_400, 200]


def test_and_behind_a_retry_of_that_retry() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    retry(world, stopped(world), "first", max_runtime="10s")
    world.run_until(State.STOPPED, recovery_id="first")
    retry(world, "first", "second", max_runtime="10s")
    world.run_until(State.STOPPED, recovery_id="second")
    world.add(data=CONTINUED)
    world.minutes(4)
    settle(world)
    assert_seamless(world)
    assert covered(world)[0][-1][1] == 3_000


def test_while_its_last_run_is_retried_a_schedule_is_not_made_again() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    retry(world, stopped(world))
    answer = world.add(data=CONTINUED)
    assert (answer.kind, answer.code) == ("rejected", Code.ID_IN_USE.value)
    assert "again copies on from there, and is" in answer.message
    world.run_until(State.COMPLETED, recovery_id="again")
    assert world.add(data=CONTINUED).kind == "accepted"
    world.minutes(3)
    settle(world)
    assert_seamless(world)


def test_nor_where_nobody_knows_how_far_the_retry_came() -> None:
    world = NoLedger(ends=(3_000, 0), speed=50)
    retry(world, stopped(world), max_runtime="10s")
    world.is_broken = True
    world.run_until(State.FAILED, recovery_id="again")
    answer = world.add(data=CONTINUED)
    assert (answer.kind, answer.code) == ("rejected", Code.ID_IN_USE.value)
    assert "nobody knows exactly where again ended" in answer.message


class Filtering(ScheduleWorld):
    """Records inside of what `other` copies are left out, as where it begins at a time."""

    def _ledger(self, effect: ReadLedger) -> LedgerRead:
        read = super()._ledger(effect)
        rows = tuple(replace(row, copied=row.copied - 5, filtered=5) if row.copied else row for row in read.partitions)
        return replace(read, partitions=rows) if effect.recovery == "other" else read


def test_nor_where_it_met_a_loss() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    retry(world, stopped(world))
    world.second(10)
    lose(world, {0: 2_500}, {})
    world.run_until(State.FAILED, recovery_id="again")
    answer = world.add(data=CONTINUED)
    assert (answer.kind, "records are gone that again was to copy" in answer.message) == ("rejected", True)


class FilteringTimed(Timed, Filtering):
    """It begins at a time, and leaves records out by it."""


@pytest.mark.parametrize("is_gap", [True, False])
def test_nor_behind_a_copy_that_leaves_something_out(is_gap: bool) -> None:
    """The next run would leave it out, too, or copy the rest twice."""
    world = ScheduleWorld(ends=(3_000, 0), speed=50) if is_gap else Filtering(ends=(3_000, 0), speed=50)
    reached = world.receipts[stopped(world)][0]
    start = {"offset": 2_000 if is_gap else reached}
    world.command("replay", "other", REPLAY | {"source": REPLAY["source"] | {"from": start, "partitions": [0]}})
    world.run_until(State.COMPLETED, recovery_id="other")
    answer = world.add(data=CONTINUED)
    assert (answer.kind, answer.code) == ("rejected", Code.ID_IN_USE.value)
    assert f"other has copied partition 0 from {start['offset']:,} to 3,000 since" in answer.message


def test_nor_where_a_run_that_never_began_was_done_by_another_copy() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add("*/5 * * * *", data=CONTINUED | {"plan_hash": "sha256:stale"})
    world.second(60)
    world.command("unschedule")
    assert world.schedule().last_end is None
    world.command("replay", "again", REPLAY)
    world.run_until(State.COMPLETED, recovery_id="again")
    answer = world.add(data=CONTINUED)
    assert (answer.kind, "again has copied partition 0 from 0 to 500" in answer.message) == ("rejected", True)


def test_copies_of_what_its_runs_copied_already_or_into_other_topics_change_nothing() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    run = stopped(world)
    reached = world.receipts[run][0]
    early = REPLAY["source"] | {"to": {"offset": reached - 10}, "partitions": [0]}
    world.command("replay", "early", REPLAY | {"source": early})
    world.run_until(State.COMPLETED, recovery_id="early")
    world.command("replay", "elsewhere", REPLAY | {"target": {"topic": "flights.v3", "on_existing": "append"}})
    world.run_until(State.COMPLETED, recovery_id="elsewhere")
    world.add(data=CONTINUED)
    last = world.schedule().last_end
    assert last is not None
    assert (last.recovery, last.offsets[0]) == (run, reached)


@pytest.mark.parametrize(
    ("start", "target", "says"),
    [
        ({"schedule": "last_end"}, "flights.v2", "by-hand"),
        ({"schedule": "last_end", "first": {"offset": 500}}, "flights.v2", ""),
        ({"schedule": "last_end"}, "flights.v3", ""),
        ("earliest", "flights.v2", ""),
    ],
)
def test_who_copied_what_the_first_run_begins_with_is_told(start: object, target: str, says: str) -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.command("replay", "by-hand", REPLAY)
    world.run_until(State.COMPLETED, recovery_id="by-hand")
    meant = {"topic": target, "on_existing": "append"}
    answer = world.add(data=REPLAY | {"source": REPLAY["source"] | {"from": start}, "target": meant})
    assert answer.kind == "accepted"
    assert ("appends again what" in answer.message, says in answer.message) == (bool(says), True)


class UnansweredWorld(ScheduleWorld):
    """The clusters say nothing of what a plan needs."""

    def _run(self, effect: Effect) -> list[Event]:
        return [] if isinstance(effect, GatherFacts) else super()._run(effect)


def test_the_answer_to_another_command_at_the_same_offset_of_a_new_control_topic_is_not_that_of_a_run() -> None:
    world = UnansweredWorld()
    world.add(data=CONTINUED)
    world.second(40)
    run = world.schedule().run
    assert run is not None
    assert run.control_offset >= 0
    world.feed(command("pause", "nobody", "c-other", offset=run.control_offset))
    assert (world.answers[-1].command_id, world.answers[-1].kind) == ("c-other", "rejected")
    world.second()
    assert world.schedule().run == run
