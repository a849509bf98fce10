"""A due time becomes a command once: over lost sends, restarts, absences, and runs that take too long."""

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import CommandNotSent
from recoveryd.kernel.states import State, StopReason
from recoveryd.schedules import due
from recoveryd.schedules.commands import ACTIVE_MOST
from tests.builders.world import illegal_moves
from tests.schedules.world import CONTINUED, REPLAY, ScheduleWorld, at

DUE = at("2026-11-22T02:00:00")
YEAR_MS = 365 * 86_400_000
RUN = "nightly.20261122t0200"


def test_a_schedule_says_when_it_is_due_and_sends_its_command_then() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=10)
    answer = world.add()
    assert (answer.kind, world.schedule().state, world.schedule().next_run_ms) == ("accepted", State.RUNNING, DUE)
    world.second(29)
    assert world.sent == []
    world.second(3)
    assert [(sent.verb, sent.subject, sent.source) for sent in world.sent] == [("replay", RUN, "//ops/alice")]
    assert world.runs() == [RUN]
    run, following = world.schedule().run, world.schedule().next_run_ms
    assert run is not None
    assert run.answer is not None
    assert (run.due_ms, run.answer.kind, following) == (DUE, "accepted", DUE + 60_000)


def test_a_schedule_whose_zone_the_machine_does_not_know_any_more_says_so_and_its_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    monkeypatch.setattr(due, "_zone", lambda _: None)
    world.second(40)
    schedule = world.schedule()
    assert (schedule.state, schedule.error_code, schedule.next_run_ms) == (
        State.FAILED, Code.INVALID_VALUE.value, None
    )  # fmt: skip
    assert "this machine knows no time zone UTC: nothing is sent any more" in schedule.why
    assert [n.data["code"] for n in world.told("schedule_failed")] == [Code.INVALID_VALUE.value]
    world.run_until(State.COMPLETED, recovery_id=RUN)
    world.second(2)
    assert (world.runs(), world.schedule().state, world.schedule().run) == ([RUN], State.FAILED, None)


def test_a_schedule_whose_zone_was_not_known_for_a_moment_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    with monkeypatch.context() as gone:
        gone.setattr(due, "_zone", lambda _: None)
        while not world.sent:
            world.second()
    assert world.schedule().next_run_ms is None
    world.second(2)
    assert (world.schedule().state, world.schedule().next_run_ms) == (State.RUNNING, at("2026-11-23T02:00"))


def test_a_run_is_an_ordinary_recovery_and_its_end_is_told() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.second(32)
    world.run_until(State.COMPLETED, recovery_id=RUN)
    world.second(2)
    schedule = world.schedule()
    assert (schedule.run, schedule.counts.fired, schedule.counts.completed) == (None, 1, 1)
    assert schedule.last_run is not None
    assert (schedule.last_run.outcome, schedule.last_run.recovery) == ("completed", RUN)
    assert [n.data["outcome"] for n in world.told("schedule_run_ended")] == ["completed"]
    assert schedule.next_run_ms == at("2026-11-23T02:00")
    assert illegal_moves(world) == []


@pytest.mark.parametrize("swallowed", [0, 1, 3])
def test_a_command_that_got_lost_is_sent_again_and_begins_one_run(swallowed: int) -> None:
    world = ScheduleWorld()
    world.swallows = swallowed
    world.add("0 2 * * *")
    world.minutes(2)
    assert len(world.sent) == swallowed + 1
    assert len({(sent.id, str(sent.data)) for sent in world.sent}) == 1
    assert world.runs() == [RUN]


def test_a_command_that_was_written_twice_is_one_run() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.second(31)
    world.write(world.control[-1].record)
    world.minutes(2)
    assert world.runs() == [RUN]
    assert [answer.kind for answer in world.answers if answer.subject == RUN] == ["accepted", "duplicate"]
    assert world.schedule().counts.completed == 1


@pytest.mark.parametrize("when", ["before it is sent", "before it is read", "while it runs"])
def test_a_daemon_that_dies_while_it_fires_fires_once(when: str) -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.second(29)
    world.swallows = 1 if when == "before it is sent" else 0
    for _ in range(2):
        if when == "while it runs":
            world.second()
        else:
            second_without_reading(world)
    world.restart(down_s=20)
    world.minutes(2)
    assert world.runs() == [RUN]
    assert world.schedule().counts.fired == 1
    assert world.schedule().counts.completed == 1


def second_without_reading(world: ScheduleWorld) -> None:
    super(ScheduleWorld, world).second()


@pytest.mark.scenario("S-OSO-18")
def test_due_times_that_passed_without_a_daemon_are_made_up_for_once() -> None:
    world = ScheduleWorld()
    world.add("*/10 * * * *")
    world.restart(down_s=3_600)
    world.second(20)
    assert world.runs() == ["nightly.20261122t0250"]
    (fired,) = world.told("schedule_fired")
    assert fired.data["missed_since"] == "2026-11-22T02:00:00.000Z"
    assert (world.schedule().counts.fired, world.schedule().counts.late) == (1, 1)
    world.minutes(10)
    assert world.runs() == ["nightly.20261122t0250", "nightly.20261122t0300"][: len(world.runs())]
    assert world.schedule().counts.late == 1


def test_a_command_that_ends_the_schedule_is_read_before_anything_is_made_up_for() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.leave_command("unschedule")
    world.restart(down_s=3_600, unread_s=60)
    world.minutes(5)
    assert world.sent == []
    assert world.schedule().state is State.STOPPED


@pytest.mark.parametrize("is_ended", [True, False])
def test_so_it_is_where_the_leader_itself_stood_still(*, is_ended: bool) -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    if is_ended:
        world.leave_command("unschedule")
    world.stand_still(unread_s=60)
    world.minutes(5)
    assert len(world.sent) == (0 if is_ended else 1)


@pytest.mark.scenario("S-WIKI-6", "S-WIKI-6a")
@pytest.mark.parametrize(("overrun", "begun"), [("skip", 2), ("queue", 3)])
def test_a_due_time_while_the_last_run_goes_on_is_left_out_or_queued(overrun: str, begun: int) -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)  # a run takes about three minutes
    world.add("* * * * *", overrun=overrun)
    first = 0
    for _ in range(600):
        world.second()
        running = [r for r in world.runs() if not world.recovery(r).is_terminal]
        assert len(running) <= 1
        first = first or (world.now_ms if len(world.runs()) == 2 else 0)
        if len(world.runs()) == begun:
            break
    schedule = world.schedule()
    assert schedule.counts.skipped >= 1
    queued, skipped = world.told("schedule_queued"), world.told("schedule_skipped")
    assert all(notice.data["reason"] == "overrun" for notice in skipped)
    if overrun == "skip":
        assert queued == []
    else:
        assert world.runs()[1] == "nightly.20261122t0201"  # the one that was queued, not the last one
        assert queued[0].data["due"] == "2026-11-22T02:01:00.000Z"


@pytest.mark.scenario("S-WIKI-5a")
def test_a_deadline_is_absolute_and_survives_a_restart() -> None:
    world = ScheduleWorld(ends=(100_000, 0), speed=10)
    world.add("0 2 * * *", max_runtime="20s")
    world.second(32)
    run = world.schedule().run
    assert run is not None
    assert run.deadline_ms == run.fired_ms + 20_000
    world.second(10)
    world.restart(down_s=4)
    recovery = world.run_until(State.STOPPED, recovery_id=RUN, seconds=60)
    assert recovery.stop is not None
    assert recovery.stop.reason in {StopReason.DEADLINE, StopReason.MAX_RUNTIME}
    assert recovery.limits.deadline_ms == run.deadline_ms
    assert world.now_ms - run.fired_ms <= 20_000 + 10_000
    world.second(2)
    assert world.schedule().counts.stopped == 1


def test_a_deadline_that_passed_before_the_command_was_read_refuses_it() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *", max_runtime="20s")
    world.second(29)
    world.swallows = 1
    world.second(1)
    world.restart(down_s=60)
    world.second(10)
    assert world.runs() == []
    assert world.schedule().last_run is not None
    assert world.schedule().last_run.outcome == "rejected"
    assert world.schedule().counts.refused == 1


def test_tighter_limits_of_the_command_itself_stay() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *", data=REPLAY | {"limits": {"max_runtime": "5s", "deadline": "1h"}}, max_runtime="20s")
    world.second(32)
    assert world.sent[0].data["limits"] == {"max_runtime": "5s", "deadline": "2026-11-22T02:00:20.000Z"}


def test_a_run_that_is_refused_is_counted_and_the_next_one_comes() -> None:
    world = ScheduleWorld()
    world.add("* * * * *", data=REPLAY | {"plan_hash": "sha256:stale"})
    world.second(65)
    world.minutes(2)
    assert world.schedule().counts.refused >= 2
    assert [n.data["code"] for n in world.told("schedule_run_ended")][:2] == [Code.STALE_PLAN.value] * 2


def test_a_command_that_cannot_be_sent_is_told_once_and_tried_until_it_can() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.refuses = CommandNotSent("nightly", "schedule:nightly:2026-11-22T02:00:00.000Z", "RCV-2012", "may not", True)
    world.minutes(2)
    assert len(world.sent) > 3
    assert [notice.data["code"] for notice in world.told("schedule_not_sent")] == ["RCV-2012"]
    world.refuses = None
    world.minutes(1)
    assert world.runs() == [RUN]


def test_a_command_that_the_daemon_would_refuse_by_its_form_ends_the_run() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.refuses = CommandNotSent("nightly", "schedule:nightly:2026-11-22T02:00:00.000Z", "RCV-1005", "no", False)
    world.minutes(2)
    assert len(world.sent) == 1
    assert world.schedule().counts.refused == 1


def test_commands_about_a_recovery_are_sent_to_it() -> None:
    world = ScheduleWorld(ends=(100_000, 0), speed=10)
    world.command("replay", "big", REPLAY)
    world.add("0 2 * * *", "pause", {}, subject="big")
    world.run_until(State.PAUSED, recovery_id="big", seconds=120)
    world.second(2)
    assert world.schedule().counts.completed == 1
    assert [(sent.subject, sent.data) for sent in world.sent] == [("big", {"reason": "because"})]


def test_an_ended_schedule_sends_nothing_and_leaves_its_run_alone() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=60)
    world.add("* * * * *")
    world.second(35)
    assert world.command("unschedule").kind == "accepted"
    schedule = world.schedule()
    assert (schedule.state, schedule.next_run_ms) == (State.STOPPED, None)
    assert world.add().code == Code.ID_IN_USE.value
    world.run_until(State.COMPLETED, recovery_id=RUN)
    world.minutes(3)
    assert world.runs() == [RUN]
    assert world.schedule().counts.completed == 1
    assert world.command("unschedule").code == Code.NOT_IN_THIS_STATE.value
    assert world.add().kind == "accepted"


def test_a_run_that_was_decided_is_sent_even_if_the_schedule_ends_meanwhile() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.second(29)
    world.swallows = 1
    world.second(1)
    world.command("stop")
    world.minutes(2)
    assert world.runs() == [RUN]
    assert (world.schedule().state, world.schedule().run) == (State.STOPPED, None)


@pytest.mark.parametrize("verb", ["pause", "resume", "throttle"])
def test_what_steers_a_copy_is_not_for_a_schedule(verb: str) -> None:
    world = ScheduleWorld()
    world.add()
    data = {"limits": {"max_bytes_per_s": 1.0}} if verb == "throttle" else {}
    assert world.command(verb, data=data).code == Code.NOT_FOR_THIS_KIND.value


def test_the_same_id_and_too_many_and_too_long_are_refused() -> None:
    world = ScheduleWorld()
    assert world.add().kind == "accepted"
    assert world.add().code == Code.ID_IN_USE.value
    data = {"cron": "0 2 * * *", "command": {"verb": "replay", "data": REPLAY}}
    assert world.command("schedule", "x" * 60, data).code == Code.INVALID_SUBJECT.value
    for number in range(ACTIVE_MOST - 1):
        assert world.command("schedule", f"s{number}", data).kind == "accepted"
    refused = world.command("schedule", "one-too-many", data)
    assert refused.code == Code.TOO_MANY_SCHEDULES.value
    assert Code.TOO_MANY_SCHEDULES.next_step


SAVEPOINT = {"unit": "flights-app", "name": "nightly"}


@pytest.mark.parametrize(
    ("verb", "data", "most"),
    [
        ("replay", REPLAY, 49),
        ("savepoint", SAVEPOINT, 44),
    ],
)
def test_an_id_leaves_room_for_what_its_runs_begin(verb: str, data: dict[str, object], most: int) -> None:
    world = ScheduleWorld()
    sent = {"cron": "0 2 * * *", "command": {"verb": verb, "data": data}}
    refused = world.command("schedule", "x" * (most + 1), sent)
    assert (refused.kind, refused.code) == ("rejected", Code.INVALID_SUBJECT.value)
    assert f"at most {most}" in refused.message
    assert world.command("schedule", "x" * most, sent).kind == "accepted"


def test_each_run_makes_a_savepoint_of_its_own_name() -> None:
    world = ScheduleWorld()
    assert world.add("*/5 * * * *", verb="savepoint", data=SAVEPOINT).kind == "accepted"
    world.minutes(7)
    assert [sent.data["name"] for sent in world.sent] == ["nightly.20261122t0200", "nightly.20261122t0205"]
    assert {sent.data["unit"] for sent in world.sent} == {"flights-app"}


def test_ended_schedules_are_forgotten_in_time() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *", data=CONTINUED)
    world.command("unschedule")
    world.now_ms += 91 * 86_400_000
    world.second(1)
    assert "nightly" not in world.decider.known(world.state)
    assert b"nightly" not in world.log


@pytest.mark.parametrize("cron", ["0 2 * * *", "* * * * *"])
def test_a_clock_that_was_ahead_by_a_year_keeps_no_run_from_its_time(cron: str) -> None:
    world = ScheduleWorld(now="2026-11-22T02:00:30")
    world.add(cron)
    world.now_ms += YEAR_MS
    world.second(40)
    ahead = world.runs()
    world.now_ms -= YEAR_MS
    world.restart()
    assert world.schedule().next_run_ms == at("2026-11-23T02:00:00" if cron != "* * * * *" else "2026-11-22T02:02:00")
    world.now_ms = at("2026-11-23T01:59:59")
    world.second(40)
    assert world.runs()[len(ahead) :] == ["nightly.20261123t0200"]


@pytest.mark.parametrize("hours", [1, 3, 30])
def test_a_clock_that_was_behind_for_a_moment_fires_no_run_that_was_not_due(hours: int) -> None:
    world = ScheduleWorld(now="2026-11-22T11:30:00")
    world.add("0 * * * *")
    world.second(900)
    world.now_ms -= hours * 3_600_000
    world.restart()
    world.second(5)
    world.now_ms += hours * 3_600_000
    world.restart()
    world.second(5)
    assert world.runs() == []
    assert world.schedule().next_run_ms == at("2026-11-22T12:00:00")
    world.now_ms = at("2026-11-22T11:59:59")
    world.second(5)
    assert world.runs() == ["nightly.20261122t1200"]


def test_a_clock_that_was_behind_for_a_moment_fires_no_run_a_second_time() -> None:
    world = ScheduleWorld(now="2026-11-22T11:30:00")
    world.add("0 * * * *")
    world.now_ms = at("2026-11-22T11:59:59")
    world.second(40)
    world.now_ms += 600_000
    world.second(2)
    fired = world.runs()
    world.now_ms -= 3 * 3_600_000
    world.restart()
    world.second(5)
    world.now_ms += 3 * 3_600_000
    world.restart()
    world.second(5)
    assert (world.runs(), world.schedule().counts.refused) == (fired, 0)
    assert world.schedule().next_run_ms == at("2026-11-22T13:00:00")


def test_a_schedule_of_each_minute_fires_nothing_twice_either() -> None:
    world = ScheduleWorld()
    world.add("* * * * *")
    world.minutes(20)
    runs = world.runs()
    world.now_ms -= 600_000
    world.restart()
    world.minutes(15)
    assert world.runs()[: len(runs)] == runs
    assert len(world.runs()) == len(set(world.runs())) == len({sent.id for sent in world.sent})
    assert world.schedule().counts.refused == 0
    assert world.runs()[len(runs)] == "nightly.20261122t0220"


def test_a_clock_that_is_set_back_fires_nothing_twice() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.minutes(2)
    world.now_ms -= 3_600_000
    world.minutes(62)
    assert world.runs() == [RUN]
    world.restart()
    world.now_ms -= 600_000
    world.second(2)
    world.now_ms = at("2026-11-23T01:59:59")
    world.second(40)
    assert world.runs() == [RUN, "nightly.20261123t0200"]
