"""The forecast of a recovery that runs: made from the measured pace, with an event when two in a row differ from the
last verdict, and a stop when retention is faster.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery import forecast_run
from recoveryd.recovery.effects import ReadLedger
from recoveryd.recovery.events import EffectFailed
from recoveryd.recovery.log_starts import DeletionRound
from recoveryd.recovery.metrics import ETA_BOUND, RETENTION_SLACK, SPEEDUP
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import CaughtUp, Limits
from tests.builders.core import BOOK, NOW_MS, command, make_facts, make_spec
from tests.builders.world import World

DAY_MS = 86_400_000


def timed(records: int = 100_000, *, window_s: float = 10_000, age_s: float = 10_000, **configs: str) -> PlanFacts:
    """One partition of `records` over `window_s` of event time, the first of them `age_s` old. As planned the copy is
    fast.
    """
    facts = make_facts((records,), bytes_per_s=1e8, rate_source="measured", source_configs=configs)
    first_ms = NOW_MS - round(age_s * 1000)
    row = replace(
        facts.source_partitions[0], first_ms=first_ms, last_ms=first_ms + round(window_s * 1000), recent_at=-1
    )
    return replace(facts, source_partitions=(row,))


def running(facts: PlanFacts, speed: int, spec=None, live: int = 0) -> World:
    world = World(facts, speed=speed)
    world.live_per_s = live
    world.feed(command("replay", spec=spec or make_spec()))
    world.run_until(State.RUNNING)
    return world


def changes(world: World) -> list[tuple[object, object]]:
    return [(n.data["from"], n.data["to"]) for n in world.notices if n.type == "forecast_changed"]


def values(world: World) -> dict[tuple[str, tuple[str, ...]], float]:
    wanted = {ETA_BOUND, SPEEDUP, RETENTION_SLACK}
    return {(s.metric.name, s.labels): s.value for s in BOOK.gauges(world.state, world.now_ms) if s.metric in wanted}


@pytest.mark.scenario("S-CASTLE-7a")
def test_nothing_is_measured_before_three_samples_and_then_the_pace_is() -> None:
    world = running(timed(), speed=100)
    world.second(19)
    assert world.recovery().progress.forecast is None
    world.second(3)
    found = world.recovery().progress.forecast
    assert found is not None
    assert (found.replay_per_s, found.rate_source) == (pytest.approx(100), "measured")
    left = 100_000 - next(p.position for p in world.recovery().progress.partitions)
    assert found.eta_seconds.mid == pytest.approx(left / 100, rel=0.01)
    assert (found.speed_up, found.eta_seconds.lo, found.eta_seconds.hi) == (
        pytest.approx(10),
        found.eta_seconds.mid,
        found.eta_seconds.mid,
    )


def test_a_change_is_told_when_two_forecasts_a_minute_apart_agree() -> None:
    world = running(timed(), speed=15)  # planned far above real time, measured at 1.5 times
    world.second(60)
    assert world.recovery().progress.forecast.outlook == "impractical_slow"
    assert changes(world) == []
    world.second(30)
    assert changes(world) == [("ok", "impractical_slow")]
    told = next(n for n in world.notices if n.type == "forecast_changed")
    assert str(told.data["why"]).startswith("at 1.50 times real time it takes")
    assert str(told.data["suggestion"]).startswith("more than 20/s (2 lanes instead of 1) is needed")
    assert told.data["evidence"]["speed_up"] == pytest.approx(1.5)
    world.speed = 500
    world.second(59)
    assert len(changes(world)) == 1
    world.second(125)
    assert changes(world)[1:] == [("impractical_slow", "ok")] or world.recovery().state is State.COMPLETED


def test_after_a_restart_the_forecast_that_was_told_is_not_told_again() -> None:
    world = running(timed(), speed=15)
    world.second(100)
    assert len(changes(world)) == 1
    world.restart_daemon()
    world.second(200)
    assert len(changes(world)) == 1


def test_behind_a_moving_head_the_eta_is_the_forecasts() -> None:
    world = running(timed(20_000), speed=100, spec=make_spec(stop=CaughtUp()), live=60)
    world.second(30)
    progress = world.recovery().progress
    assert progress.forecast is not None
    assert progress.forecast.live_per_s == pytest.approx(60)
    assert progress.eta_seconds == progress.forecast.eta_seconds.mid
    assert progress.forecast.eta_seconds.mid == pytest.approx(progress.lag_records / 40, rel=0.1)


def test_a_replay_at_the_head_is_not_called_slow_for_copying_only_what_arrives() -> None:
    world = running(timed(1_000), speed=1_000, spec=make_spec(stop=CaughtUp()), live=20)
    world.second(8)
    world.recovery()
    outlooks = set()
    for _ in range(150):
        world.second()
        found = world.recovery().progress.forecast
        outlooks |= {found.outlook} if found else set()
        if world.recovery().is_terminal:
            break
    assert outlooks <= {"ok"}
    assert changes(world) == []


def test_what_rests_or_waits_comes_nearer_to_retention_and_has_no_time_left_of_before() -> None:
    facts = timed(100_000, window_s=10_000, age_s=86_400 - 20_000, **{"retention.ms": str(DAY_MS)})
    world = running(facts, speed=100)
    world.second(30)
    slack = values(world)[RETENTION_SLACK.name, ("r1",)]
    world.feed(command("pause", offset=1))
    world.second(10)
    assert world.recovery().state is State.PAUSED
    world.second(3_600)
    rested = values(world)
    assert rested == {(RETENTION_SLACK.name, ("r1",)): pytest.approx(slack - 3_610, abs=30)}
    world.feed(command("resume", offset=2))
    world.second(3)
    assert world.recovery().state is State.RUNNING
    assert values(world).keys() == rested.keys(), "the forecast of before the pause says nothing"
    world.second(90)
    assert values(world)[ETA_BOUND.name, ("r1", "mid")] > 60


def test_a_race_that_retention_wins_ends_the_recovery_after_two_forecasts() -> None:
    # half of real time, and 500 s of slack that shrink by half a second each second
    facts = timed(100_000, window_s=10_000, age_s=86_400 - 500, **{"retention.ms": str(DAY_MS)})
    world = running(facts, speed=5)
    stopped = world.run_until(State.STOPPED, seconds=200)
    assert stopped.stop is not None
    assert (stopped.stop.reason, stopped.error_code) == (StopReason.RETENTION_RACE, Code.RETENTION_RACE.value)
    evidence = stopped.stop.evidence
    assert evidence["loss_in_s"] < evidence["seconds"]
    assert stopped.why.startswith("retention reaches the position in")
    assert changes(world) == [("ok", "retention_loss")]
    assert sum(r.unexplained for r in stopped.completeness) == 0


def test_a_lost_race_whose_receipts_cannot_be_read_fails_by_the_code_of_that() -> None:
    facts = timed(100_000, window_s=10_000, age_s=86_400 - 500, **{"retention.ms": str(DAY_MS)})
    world = running(facts, speed=5)
    run = world._run

    def unreadable(effect):
        if not isinstance(effect, ReadLedger):
            return run(effect)
        what = "no right to read recovery.receipts.v1"
        return [EffectFailed(effect.recovery, "read_ledger", effect.attempt, "RCV-2012", what, False, effect.sequence)]

    world._run = unreadable
    failed = world.run_until(State.FAILED, seconds=300)
    assert (failed.stop.reason, failed.error_code) == (StopReason.TARGET_UNAVAILABLE, "RCV-3004")


def test_a_loss_that_was_allowed_is_told_but_ends_nothing() -> None:
    facts = timed(100_000, window_s=10_000, age_s=86_400 - 500, **{"retention.ms": str(DAY_MS)})
    world = running(facts, speed=5, spec=make_spec(on_data_loss="continue"))
    world.second(200)
    assert world.recovery().state is State.RUNNING
    assert changes(world) == [("ok", "retention_loss")]


def test_records_that_are_overdue_but_still_there_are_copied_while_the_replay_gains() -> None:
    facts = timed(100_000, window_s=10_000, age_s=2 * 86_400, **{"retention.ms": str(DAY_MS)})
    world = running(facts, speed=100)
    world.second(200)
    assert world.recovery().state is State.RUNNING
    assert world.recovery().progress.forecast.outlook == "retention_loss"
    assert values(world)["recoveryd_retention_slack_seconds", ("r1",)] < 0


def test_a_log_start_that_moves_faster_than_the_copy_is_a_lost_race_too() -> None:
    world = running(timed(100_000, **{"retention.bytes": "1000000000"}), speed=50)
    sample = world.sample
    began_ms = world.now_ms

    def deleting():
        event = sample()
        moved = (world.now_ms - began_ms) // 1_000 * 55 - 2_000
        rows = tuple(replace(t, log_start={0: max(1, moved)}) for t in event.topics)
        return replace(event, topics=rows)

    world.sample = deleting
    stopped = world.run_until(State.STOPPED, seconds=300)
    assert stopped.stop.reason is StopReason.RETENTION_RACE


def kept_by_size(*, segment: int, every_s: int) -> World:
    """1,000 records arrive a second, and each segment of them a segment goes; the replay is ten times as fast."""
    world = running(timed(6_000_000, **{"retention.bytes": "1000000000"}), speed=10_000, live=1_000)
    began_ms, sample = world.now_ms, world.sample

    def deleting():
        world.log_starts = {0: (world.now_ms - began_ms) // (1_000 * every_s) * segment}
        return sample()

    world.sample = deleting
    return world


def rounds(world: World) -> tuple[DeletionRound, ...]:
    return world.state.of(RECOVERY).observed["r1"].log_starts.known[0].rounds


def test_a_segment_that_is_deleted_takes_no_hours_of_slack_away() -> None:
    world = kept_by_size(segment=150_000, every_s=150)
    told = []
    for _ in range(580):
        world.second()
        slack = values(world).get((RETENTION_SLACK.name, ("r1",)))
        if slack is not None:
            told.append(slack)
    assert world.recovery().state is State.RUNNING
    assert len(told) > 300
    assert min(after - before for before, after in pairwise(told)) > -2, "a second each second"
    at = next(p.position for p in world.recovery().progress.partitions)
    assert 0.85 < told[-1] / ((at - world.log_starts[0]) / 1_000) <= 1
    assert changes(world) == []


def test_one_that_more_is_deleted_from_than_arrives_is_raced_by_that() -> None:
    """As where new records are larger than old ones: half as many arrive as go."""
    world = kept_by_size(segment=300_000, every_s=150)
    world.speed = 4_000
    world.second(1_100)
    found = world.recovery().progress.forecast
    assert found is not None
    while world.recovery().progress.forecast.at_ms == found.at_ms:
        world.second()
    at = next(p.position for p in world.recovery().progress.partitions)
    passed_s = (world.now_ms - rounds(world)[-1].ended_ms) / 1_000
    slack_s = world.recovery().progress.forecast.slack_s
    assert slack_s == pytest.approx((at - world.log_starts[0]) / 2_000 - passed_s, rel=0.05)


def test_a_copy_that_is_slower_than_what_goes_has_lost_its_race_by_the_fourth_round() -> None:
    world = kept_by_size(segment=300_000, every_s=150)
    world.second(100)
    world.speed = 1_500
    stopped = world.run_until(State.STOPPED, seconds=600)
    assert stopped.stop.reason is StopReason.RETENTION_RACE
    assert len(rounds(world)) == 4


def test_while_nobody_knows_what_arrives_the_slack_of_before_shrinks() -> None:
    world = kept_by_size(segment=150_000, every_s=150)
    world.second(300)
    world.sees_source = False
    world.second(70)
    known, slack = world.recovery().progress.forecast, values(world)[RETENTION_SLACK.name, ("r1",)]
    world.second(100)
    assert world.recovery().progress.forecast.at_ms <= known.at_ms + 60_000
    assert values(world)[RETENTION_SLACK.name, ("r1",)] == pytest.approx(slack - 100, abs=1)


def unseen_of(world: World, partition: int) -> None:
    """As while its leader is away: samples hold the other partitions only."""
    whole = world.sample

    def partial():
        event = whole()
        seen = tuple(
            replace(t, **{name: without(getattr(t, name), partition) for name in ("log_start", "high_watermark")})
            for t in event.topics
        )
        return replace(event, topics=seen)

    world.sample = partial


def without(offsets: Mapping[int, int], partition: int) -> Mapping[int, int]:
    return {number: at for number, at in offsets.items() if number != partition}


def of_two(records: tuple[int, int], **configs: str) -> PlanFacts:
    """Two partitions of a second of event time for each record; as planned the copy is fast."""
    facts = make_facts(records, bytes_per_s=1e8, rate_source="measured", source_configs=configs)
    first_ms = NOW_MS - max(records) * 1_000
    rows = tuple(
        replace(row, first_ms=first_ms, last_ms=first_ms + held * 1_000, recent_at=-1)
        for row, held in zip(facts.source_partitions, records, strict=True)
    )
    return replace(facts, source_partitions=rows)


def test_one_partition_of_which_nobody_knows_what_arrives_keeps_the_forecast_of_before() -> None:
    """The one that is nearer to its log start."""
    world = running(of_two((6_000_000, 6_000_000), **{"retention.bytes": "1000000000"}), speed=10_000, live=1_000)
    began_ms, sample = world.now_ms, world.sample

    def deleting():
        moved = (world.now_ms - began_ms) // 150_000 * 150_000
        world.log_starts = {0: moved // 2, 1: moved}
        return sample()

    world.sample = deleting
    world.second(300)
    unseen_of(world, 1)
    world.second(5)
    known, slack = world.recovery().progress.forecast, values(world)[RETENTION_SLACK.name, ("r1",)]
    world.second(120)
    assert world.recovery().progress.forecast == known
    assert values(world)[RETENTION_SLACK.name, ("r1",)] == pytest.approx(slack - 120, abs=0.1)
    world.sample = deleting
    world.second(20)
    assert world.recovery().progress.forecast.at_ms > known.at_ms + 120_000


def test_a_race_that_one_partition_loses_is_called_while_another_is_unseen() -> None:
    world = running(of_two((6_000_000, 6_000_000), **{"retention.bytes": "1000000000"}), speed=1_500, live=1_000)
    began_ms, sample = world.now_ms, world.sample

    def deleting():
        world.log_starts = {0: (world.now_ms - began_ms) // 150_000 * 300_000, 1: 0}
        return sample()

    world.sample = deleting
    world.second(100)
    assert world.recovery().progress.forecast.outlook == "ok"
    unseen_of(world, 1)
    world.second(900)
    assert world.recovery().progress.forecast.outlook == "retention_loss"


def test_what_somebody_deletes_once_is_no_pace() -> None:
    """Of a million, beside a segment of 150,000 each 150 s; the copy is three times as fast as that."""
    world = running(timed(6_000_000, **{"retention.bytes": "1000000000"}), speed=3_000, live=1_000)
    began_ms, sample = world.now_ms, world.sample

    def deleting():
        passed_s = (world.now_ms - began_ms) // 1_000
        world.log_starts = {0: passed_s // 150 * 150_000 + 1_000_000 * (passed_s >= 510)}
        return sample()

    world.sample = deleting
    world.second(1_500)
    assert world.recovery().state is State.RUNNING


def test_a_forecast_that_cannot_be_made_is_not_tried_with_each_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running(of_two((600_000, 600_000)), speed=100, spec=make_spec(stop=CaughtUp()), live=60)
    world.second(100)
    unseen_of(world, 1)
    world.second(70)
    tried = list[int]()
    question = forecast_run._question
    monkeypatch.setattr(forecast_run, "_question", lambda *a: tried.append(world.now_ms) or question(*a))
    world.second(60)
    assert 5 <= len(tried) <= 7


def test_of_a_partition_that_is_copied_nobody_has_to_know_what_arrives() -> None:
    world = running(of_two((6_000_000, 1_000), **{"retention.bytes": "1000000000"}), speed=10_000, live=1_000)
    world.second(100)
    unseen_of(world, 1)
    world.second(5)
    known = world.recovery().progress.forecast
    world.second(70)
    assert world.recovery().progress.forecast.at_ms > known.at_ms


def test_what_arrives_in_one_partition_unseen_is_not_nothing_to_a_copy_that_follows() -> None:
    world = running(of_two((200_000, 200_000)), speed=100, spec=make_spec(stop=CaughtUp()), live=60)
    world.second(100)
    unseen_of(world, 1)
    world.second(5)
    known = world.recovery().progress.forecast
    world.second(120)
    assert world.recovery().progress.forecast == known
    assert known.live_per_s == pytest.approx(120)


def test_metrics_tell_the_interval_less_the_time_since_then() -> None:
    world = running(timed(**{"retention.ms": str(DAY_MS)}), speed=100)
    first = values(world)
    planned = world.recovery().plan.forecast
    assert first["recoveryd_speedup_ratio", ("r1",)] == planned.speed_up
    world.second(25)
    found = world.recovery().progress.forecast
    passed_s = (world.now_ms - found.at_ms) / 1000
    later = values(world)
    assert later["recoveryd_recovery_eta_bound_seconds", ("r1", "mid")] == pytest.approx(
        found.eta_seconds.mid - passed_s
    )
    assert later["recoveryd_retention_slack_seconds", ("r1",)] == found.slack_s - passed_s
    assert found.slack_s > 76_400


def test_never_is_an_infinite_bound_and_an_ended_recovery_has_none() -> None:
    never = make_spec(stop=CaughtUp())
    facts = timed(100_000)
    slow = replace(facts, source_partitions=(replace(facts.source_partitions[0], recent_at=0),), bytes_per_s=100.0)
    world = running(slow, speed=10, spec=never, live=100)
    assert values(world)["recoveryd_recovery_eta_bound_seconds", ("r1", "mid")] == math.inf
    done = World(timed(100))
    done.feed(command("replay"))
    done.run_until(State.COMPLETED)
    assert values(done) == {}


def test_while_the_controller_raises_the_rate_the_forecast_follows_the_grant_and_is_made_with_each_sample() -> None:
    world = running(timed(1_000_000), speed=100, spec=make_spec(limits=Limits(mode="controller", max_bytes_per_s=1e4)))
    for number, speed in enumerate((200, 400, 800, 1_600)):
        world.second(20)
        world.feed(command("throttle", command_id=f"t{number}", max_bytes_per_s=speed * 100.0))
        world.speed = speed
    world.second(12)
    told = []
    for _ in range(3):
        world.second(10)
        found = world.recovery().progress.forecast
        left = 1_000_000 - next(p.position for p in world.recovery().progress.partitions)
        told.append(found.at_ms)
        assert found.eta_seconds.mid == pytest.approx(left / 1_600, rel=0.25)
        assert found.eta_seconds.lo <= found.eta_seconds.mid <= found.eta_seconds.hi
    assert len(set(told)) == 3


def test_between_two_minutes_a_forecast_of_a_climb_changes_no_verdict() -> None:
    world = running(timed(), speed=15, spec=make_spec(limits=Limits(mode="controller", max_bytes_per_s=1_500)))
    world.second(25)
    world.feed(command("throttle", command_id="t1", max_bytes_per_s=3_000.0))
    world.second(40)
    assert changes(world) == []
