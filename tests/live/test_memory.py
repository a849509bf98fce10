"""What was safe is remembered by hour of the day and returned to quickly, but only while fresh samples allow it."""

from dataclasses import replace

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.keeping import begun, kept_of
from recoveryd.live.law.memory import HOUR_MS, HOURS, Memory, WorkKind, hour_of
from recoveryd.live.law.types import Rule
from recoveryd.live.pressure import Protection, SignalKind
from tests.live.control_rig import FLOOR, LATENCY, PARAMS, PERIOD_MS, START_MS, Rig, started

HOUR = hour_of(START_MS)
STARTED = 5.0  # what a rig that is `started` had before the rate of the test


def remembering(rate: float, hour: int = HOUR) -> Rig:
    rig = Rig().rest()
    rig.state = replace(rig.state, memory=Memory({hour: rate}))
    return rig


def test_a_rate_that_was_used_for_a_loop_delay_while_there_was_room_is_safe() -> None:
    rig = started(40.0)
    for _ in range(6):
        rig.tick(0.85)
    assert rig.state.memory.safe[HOUR] == pytest.approx(40.0)


def test_what_a_short_recovery_did_last_is_learned_after_its_end() -> None:
    rig = started(40.0, replace(PARAMS, period_ms=2_000)).rest(2)
    assert (rig.state.memory.safe_at(rig.now_ms) or 0.0) <= STARTED, "samples of a whole loop delay have to come first"
    rig.rest(5)
    assert rig.state.memory.safe_at(rig.now_ms) == pytest.approx(40.0)
    assert not rig.state.tried


@pytest.mark.parametrize("after", ["harm", "harm while it is proved", "silence"])
def test_nothing_is_learned_where_the_time_after_the_end_shows_harm_or_nothing(after: str) -> None:
    rig = started(40.0)
    if after == "harm while it is proved":
        rig.work = WorkKind.READ
        rig.tick(1.1)
        rig.tick(1.1)
    rig.tick(1.1 if after == "harm" else None, active=False, lag_s=None if after == "silence" else 5.0)
    if after == "silence":
        for _ in range(6):
            rig.tick(None, lag_s=None, active=False)
    rig.rest()
    assert (rig.state.memory.safe_at(rig.now_ms) or 0.0) <= STARTED
    assert not rig.state.tried


@pytest.mark.parametrize("after", [WorkKind.WRITE, WorkKind.READ])
def test_what_no_sample_was_taken_of_is_not_learned_after_its_end(after: WorkKind) -> None:
    rig = started(10.0)
    rig.state = replace(rig.state, rate=40.0, budget=40.0, published=40.0, publications=((rig.now_ms, 40.0),))
    for _ in range(3):
        rig.tick(None, lag_s=None, after_ms=1_000)
    assert [one.rate for one in rig.state.tried][-1] == pytest.approx(40.0)
    rig.work = after
    rig.tick(None, lag_s=None, active=after is WorkKind.READ)
    for _ in range(12):
        rig.tick(0.0, active=after is WorkKind.READ)
    assert (rig.state.memory.safe_at(rig.now_ms) or 0.0) <= 10.0


def test_a_rate_that_lanes_did_not_use_proves_nothing() -> None:
    rig = Rig().rest()
    for _ in range(10):
        rig.tick(0.0, achieved=2.0)
    assert rig.state.memory.safe_at(rig.now_ms) == pytest.approx(2.5)


SOME_LEFT_OUT = replace(PARAMS, protections=PARAMS.protections[:1], some_left_out=True)


def test_nothing_is_safe_that_was_used_while_something_that_is_protected_did_not_count() -> None:
    rig = remembering(8.0)
    rig.tick(0.0)
    rig.params = SOME_LEFT_OUT
    for _ in range(60):
        rig.tick(0.0)
    assert rig.state.rate > 50.0
    rig.params = PARAMS
    assert rig.rest().tick(0.0).rate_bytes_per_s == 8.0


def test_what_is_too_much_meanwhile_is_too_much_later() -> None:
    rig = started(40.0)
    rig.state = replace(rig.state, memory=Memory({HOUR: 60.0}))
    rig.params = SOME_LEFT_OUT
    rig.cut()
    assert rig.state.memory.safe == {HOUR: pytest.approx(30.0)}
    assert rig.state.memory.knows_harm(rig.now_ms)


def test_nothing_is_learned_while_a_signal_does_not_count_that_replays_do_not_move() -> None:
    group = replace(PARAMS.protections[1], drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], group)))
    for _ in range(60):
        rig.tick(0.0, lag_s=90.0)
    assert rig.state.dropped
    assert rig.state.rate > 30.0
    assert (rig.state.memory.safe_at(rig.now_ms) or 0.0) <= STARTED


ADDED = Protection("orders", SignalKind.LAG, 5.0, idle_s=2.5)
LATENCY_OF_CONFIG, GROUP_OF_CONFIG = PARAMS.protections


@pytest.mark.parametrize(
    ("now", "is_kept"),
    [
        (PARAMS.protections, True),
        ((LATENCY_OF_CONFIG,), True),
        ((*PARAMS.protections, ADDED), False),
        ((LATENCY_OF_CONFIG, replace(GROUP_OF_CONFIG, slo_s=29.0)), False),
        ((LATENCY_OF_CONFIG, replace(GROUP_OF_CONFIG, slo_s=60.0)), True),
        ((GROUP_OF_CONFIG,), True),
    ],
)
def test_what_was_safe_is_forgotten_where_somebody_is_protected_for_whom_it_was_not(
    now: tuple[Protection, ...], is_kept: bool
) -> None:
    before = remembering(60.0).rest(1)
    before.state = replace(before.state, memory=replace(before.state.memory, harm_ms=START_MS))
    rig = Rig(replace(PARAMS, protections=now))
    rig.state = begun({"live": kept_of({"main": before.state})}, "main")
    rig.rest(1)
    assert rig.state.memory.safe == ({HOUR: 60.0} if is_kept else {})
    assert rig.state.memory.protects == {p.name: p.slo_s for p in now}
    assert rig.state.memory.knows_harm(rig.now_ms)
    assert LATENCY not in {p.name for p in now} or rig.state.baselines, "rest is no matter of who is protected"


def test_a_signal_that_was_taken_out_of_the_config_and_comes_back_was_not_protected_meanwhile() -> None:
    rig = remembering(60.0).rest(1)
    for protections, safe in ((PARAMS.protections[:1], {HOUR: 60.0}), (PARAMS.protections, {})):
        rig.params = replace(PARAMS, protections=protections)
        assert rig.rest(1).state.memory.safe == safe


def test_what_an_older_daemon_kept_did_not_say_for_whom_it_was_safe_and_counts() -> None:
    rig = Rig()
    rig.state = begun({"live": {"main": {"safe": {str(HOUR): 60.0}}}}, "main")
    assert rig.rest().tick(0.0).rate_bytes_per_s == 60.0


def test_a_rate_that_led_to_a_cut_was_not_safe() -> None:
    rig = started(40.0)
    for _ in range(6):
        rig.tick(0.85)
    assert not rig.state.memory.knows_harm(rig.now_ms)
    rig.cut()
    assert rig.state.memory.safe_at(rig.now_ms) == pytest.approx(30.0, rel=0.02)
    assert rig.state.memory.knows_harm(rig.now_ms)
    assert begun({"live": kept_of({"main": rig.state})}, "main").memory.knows_harm(rig.now_ms), "after a restart too"


@pytest.mark.parametrize("hour", [HOUR, HOUR - 1])
def test_the_next_recovery_begins_where_this_hour_or_the_last_one_was_safe(hour: int) -> None:
    first = remembering(60.0, hour).tick(0.0)
    assert first.rate_bytes_per_s == pytest.approx(60.0)


def proving(memory: Memory) -> Rig:
    """A copy that is proved from now on. Next to nothing of any SLO is used, and three times its rate was safe for
    proofs.
    """
    rig = started(20.0)
    rig.ceiling = 1_000.0
    for _ in range(6):
        rig.tick(0.0, lag_s=1.0)
    rig.state = replace(rig.state, memory=replace(memory, safe_read={HOUR: 3 * rig.state.rate}))
    rig.work = WorkKind.READ
    rig.tick(0.0, lag_s=1.0)
    return rig


def test_where_nothing_was_ever_too_much_what_was_safe_is_left_without_a_wait_for_samples_of_it() -> None:
    rig = proving(Memory())
    safe = rig.state.rate
    assert rig.tick(0.0, lag_s=1.0).rate_bytes_per_s > 1.1 * safe


def test_where_a_rate_was_too_much_once_what_was_safe_is_kept_until_there_are_samples_of_it() -> None:
    rig = proving(Memory(harm_ms=START_MS))
    safe = rig.state.rate
    assert rig.tick(0.0, lag_s=1.0).rate_bytes_per_s < 1.05 * safe


def test_a_recovery_does_not_begin_above_what_was_safe() -> None:
    assert remembering(2.0).tick(0.0).rate_bytes_per_s == 2.0
    assert remembering(0.5).tick(0.0).rate_bytes_per_s == FLOOR


def test_another_hour_says_nothing() -> None:
    assert remembering(60.0, (HOUR + 5) % 24).tick(0.0).rate_bytes_per_s == 5.0


@pytest.mark.parametrize("z", [0.9, 0.99])
def test_a_recovery_that_finds_live_traffic_near_its_slo_begins_low_whatever_is_remembered(z: float) -> None:
    rig = remembering(60.0)
    rig.tick(z, active=False)
    assert rig.tick(z).rate_bytes_per_s == 5.0


def test_without_fresh_samples_memory_raises_nothing() -> None:
    rig = remembering(60.0)
    first = rig.tick(None, lag_s=None, after_ms=60_000)
    assert first.rate_bytes_per_s <= 5.0
    assert all(rig.tick(None, lag_s=None).wanted_bytes_per_s <= 5.0 for _ in range(10))


def test_fresh_samples_are_enough_to_begin_with_what_was_safe_also_where_none_comes_in_that_very_step() -> None:
    rig = remembering(60.0)
    assert rig.tick(None, lag_s=None).rate_bytes_per_s == 60.0
    assert rig.tick(None, lag_s=None).rate_bytes_per_s <= 60.0


def test_after_a_restart_it_stays_at_the_floor_until_samples_come_and_is_back_within_two_loop_delays() -> None:
    before = remembering(60.0)
    rig = Rig()
    rig.state = replace(rig.state, memory=before.state.memory, baselines=before.state.baselines)
    assert [rig.tick(None, lag_s=None).rate_bytes_per_s for _ in range(3)] == [FLOOR] * 3
    rates = [rig.tick(0.0).wanted_bytes_per_s for _ in range(10)]
    assert rates[-1] >= 0.9 * 60.0


def test_after_a_cut_it_is_back_at_what_was_safe_within_two_loop_delays() -> None:
    rig = started(40.0)
    rig.tick(None, more=(Reading(LATENCY, 0.8, rig.now_ms + PERIOD_MS),))
    assert rig.state.rate <= 11.0
    rules = [rig.tick(0.3).rule for _ in range(10)]
    assert Rule.SLOW_START in rules
    assert rig.state.rate >= 29.0


def test_a_higher_rate_counts_at_once_and_a_lower_one_slowly() -> None:
    at_ms = 7 * HOUR_MS
    memory = Memory().with_safe(50.0, at_ms).with_safe(100.0, at_ms).with_safe(50.0, at_ms)
    assert memory.safe_at(at_ms) == pytest.approx(99.0)
    assert memory.with_most(40.0, at_ms).safe_at(at_ms + HOUR_MS) == 40.0
    assert memory.safe_at(at_ms + 2 * HOUR_MS) is None


def test_a_rate_that_was_used_in_one_hour_is_not_safe_in_the_next_one_where_samples_of_it_came() -> None:
    ends_ms = START_MS - START_MS % HOUR_MS + HOUR_MS
    hour = hour_of(ends_ms)
    rig = started(40.0)
    rig.now_ms = ends_ms - 6 * PERIOD_MS
    for _ in range(5):
        rig.tick(0.85)
    rig.state = replace(rig.state, memory=Memory({hour: 10.0}))
    while rig.state.tried:
        rig.tick(0.85, active=False)
    assert rig.state.memory.safe == {hour - 1: pytest.approx(40.0, rel=0.05), hour: 10.0}


DAY_MS = HOURS * HOUR_MS


def test_harm_at_the_same_minute_of_each_day_is_known_in_each_run_also_after_a_restart() -> None:
    """A batch does harm at minute 7 of a daily run. What is journaled is up to an hour older than the last harm."""
    memory = Memory({HOUR: 5.0})
    for day in range(5):
        at_ms = START_MS + day * DAY_MS
        if day:
            assert all(memory.knows_harm(at_ms + minute * 60_000) for minute in range(61))
        memory = memory.with_most(5.0, at_ms + 7 * 60_000 - (HOUR_MS if day % 2 else 0))
    assert not memory.knows_harm(START_MS + 6 * DAY_MS), "a day without it"


@pytest.mark.parametrize(("minute", "next_hour"), [(10, 80.0), (50, 30.0)])
def test_what_is_too_much_shortly_before_an_hour_ends_is_too_much_in_the_next_one(
    minute: int, next_hour: float
) -> None:
    now_ms = START_MS - START_MS % HOUR_MS + minute * 60_000
    hour = hour_of(now_ms)
    memory = Memory({hour: 60.0, hour + 1: 80.0, hour + 2: 90.0}).with_most(30.0, now_ms)
    assert memory.safe == {hour: 30.0, hour + 1: next_hour, hour + 2: 90.0}
    assert Memory({hour + 1: 20.0}).with_most(30.0, now_ms).safe == {hour + 1: 20.0}
    assert Memory({(hour - 1) % HOURS: 40.0}).with_most(30.0, now_ms).safe_at(now_ms) == 30.0
