"""How far behind a group is that reads committed records only, while a transaction keeps the last stable offset."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import lag_reading
from recoveryd.live.lag.commits import stuck_gap_ms
from recoveryd.live.lag.evaluate import evaluate_group
from recoveryd.live.lag.verdicts import GroupLag, LagVerdict
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample
from recoveryd.watches.judge import judge_caught_up
from tests.builders.live_world import BOARD, LAG, LATENCY, MAX, LiveWorld, make_params

NOW_MS = 1_800_000_000_000
PERIOD_MS = 5_000
PARAMS = LagParams(is_read_committed=True, slo_ms=30_000)


@dataclass(frozen=True)
class Plant:
    """A topic with so many live records a second, and transactions of `open_ms` of somebody else, one begun each
    `every_ms`, of as many again; from `dies_ms` on the last one stays open. The group reads what is stable at once, and
    commits each second. `writers`: so many write such transactions, each a little after the one before; only the first
    one dies.
    """

    open_ms: int
    every_ms: int
    dies_ms: int = 10**12
    per_s: int = 100
    writers: int = 1

    def end(self, at_ms: int) -> int:
        return self.per_s * at_ms // 1000

    def stable(self, at_ms: int) -> int:
        return self.end(min(self.begun(at_ms, writer) for writer in range(self.writers)))

    def begun(self, at_ms: int, writer: int) -> int:
        """When the oldest that is open was begun, or now."""
        dies_ms, after_ms = 10**12 if writer else self.dies_ms, writer * self.every_ms // self.writers
        begun_ms = (min(at_ms, dies_ms) - after_ms) // self.every_ms * self.every_ms + after_ms
        is_open = at_ms - begun_ms < self.open_ms or begun_ms <= dies_ms < begun_ms + self.open_ms <= at_ms
        return begun_ms if is_open else at_ms

    def looks(self, count: int, shift_ms: int = 0) -> Iterator[LagSample]:
        """One each five seconds, at no even times."""
        for i in range(1, count + 1):
            at_ms = i * PERIOD_MS + (i * 1_237 + shift_ms) % 400
            committed = self.stable(at_ms // 1_000 * 1_000)
            yield LagSample(
                committed, NOW_MS + at_ms, self.end(at_ms), NOW_MS + at_ms + 50, 0, self.stable(at_ms), "t", True
            )


def told(found: Iterator[LagSample], params: LagParams = PARAMS) -> Iterator[tuple[int, GroupLag, Window]]:
    window = Window()
    for sample in found:
        now_ms = sample.end_at_ms + 50
        window = with_sample(window, sample, now_ms, params)
        yield sample.position_at_ms - NOW_MS, evaluate_group({0: window}, (0,), now_ms, params), window


def test_a_group_behind_a_transaction_that_stays_open_lags_by_the_age_of_what_it_cannot_read() -> None:
    """The lane of a copy dies in its chunk, 102 s after the first look."""
    plant = Plant(open_ms=5_000, every_ms=5_000, dies_ms=102_000)
    late = [(at_ms, group) for at_ms, group, _ in told(plant.looks(80)) if at_ms > 105_000]
    for at_ms, group in late:
        assert group.offset_lag == 0
        assert group.steady_s == pytest.approx((at_ms - 100_000) / 1000, abs=2.6)
        assert group.time_lag_s == (None if at_ms > 395_000 else pytest.approx(group.steady_s, abs=0.1))
        assert lag_reading("lag", group, NOW_MS + at_ms) is not None


def test_a_transaction_that_was_open_before_the_first_look_gives_no_lag_until_it_is_beyond_the_slo() -> None:
    found = [LagSample(500, NOW_MS + i * 5_000, 900 + i, NOW_MS + i * 5_000, 0, 500, "t", True) for i in range(1, 200)]
    lags = [(group.time_lag_s, group.steady_s) for _, group, _ in told(iter(found))]
    assert lags[:6] == [(None, None)] * 6
    assert lags[6:] == [(None, 30.0 + 5 * i) for i in range(193)], "a transaction of ten minutes too"


@pytest.mark.parametrize("shift_ms", range(0, 400, 50))
@pytest.mark.parametrize(
    "plant",
    [Plant(100, 100), Plant(100, 3_000), Plant(5_000, 5_000), Plant(4_000, 7_000), Plant(100, 3_000, per_s=1)],
    ids=["an application of Kafka Streams", "a producer now and then", "a copy", "a slow copy", "little of both"],
)
def test_transactions_of_ordinary_length_are_no_lag_to_speak_of(plant: Plant, shift_ms: int) -> None:
    for at_ms, group, _ in told(plant.looks(200, shift_ms)):
        if at_ms > 6 * PERIOD_MS:
            assert group.verdict in {LagVerdict.OK, LagVerdict.IDLE}
            assert group.time_lag_s is not None
            assert group.time_lag_s <= plant.open_ms / 1000 + 2.6
            assert group.steady_s is not None
            assert group.steady_s <= 6


def test_transactions_that_are_always_long_press_no_more_than_short_ones_until_one_is_longer_than_usual() -> None:
    """Of half a minute each, beside an SLO of two; one that is open for a minute and a half."""
    plant = Plant(open_ms=30_000, every_ms=30_000, dies_ms=620_000)
    for at_ms, group, window in told(plant.looks(150), replace(PARAMS, slo_ms=120_000)):
        assert group.steady_s is not None or at_ms < 60_000
        if 100_000 < at_ms < 600_000:
            assert stuck_gap_ms(window, PARAMS) == pytest.approx(30_000, abs=5_000)
            assert group.offset_lag or (group.steady_s or 0) <= 10
        elif at_ms > 640_000:
            assert group.steady_s == group.time_lag_s == pytest.approx((at_ms - 600_000) / 1000, abs=2.6)


@pytest.mark.parametrize("writers", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("open_s", [5, 10, 15, 30, 60])
def test_a_watch_ends_however_transactions_overlap_but_not_beside_one_that_is_much_longer(
    open_s: int, writers: int
) -> None:
    """The last stable offset moves as often as one of them ends, but what waits there is always as old as each is
    long.
    """
    open_ms, dies_ms = open_s * 1_000, 601_000
    plant = Plant(open_ms, open_ms, dies_ms, writers=writers)
    before = Window()
    for at_ms, group, window in told(plant.looks(240), replace(PARAMS, slo_ms=2 * open_ms)):
        [clause] = judge_caught_up("t", {0: window}, {0: before}, (0,), NOW_MS + at_ms + 100, PARAMS)
        before = window
        begun_ms = dies_ms // open_ms * open_ms
        if 4 * open_ms + 30_000 < at_ms < dies_ms:
            assert clause.holds, (at_ms, clause.why)
            assert group.steady_s is not None
            assert group.steady_s <= 6
        elif at_ms > begun_ms + max(3 * open_ms, open_ms + 12_500):
            assert not clause.holds, at_ms
            assert "an open transaction holds the last stable offset" in clause.why or group.time_lag_s is None


@pytest.mark.parametrize("writers", [1, 4])
def test_how_long_the_first_transaction_is_that_a_daemon_sees_is_not_usual_yet(writers: int) -> None:
    plant, before, held = Plant(60_000, 60_000, writers=writers), Window(), []
    for at_ms, _, window in told(plant.looks(23)):
        [clause] = judge_caught_up("t", {0: window}, {0: before}, (0,), NOW_MS + at_ms + 100, PARAMS)
        before = window
        held.append(clause.holds)
        if len(window.stuck_ms) < 2:
            assert stuck_gap_ms(window, PARAMS) == PARAMS.commit_interval_ms
    assert not all(held[12:])


@pytest.mark.parametrize(("plant", "is_slow"), [(Plant(5_000, 5_000), False), (Plant(5_000, 5_000, 450_000), True)])
def test_a_replay_is_slowed_down_by_a_transaction_that_stays_open_and_by_no_other(
    plant: Plant, *, is_slow: bool
) -> None:
    params = make_params(LATENCY, replace(LAG, slo_s=15.0))
    lags = {BOARD: replace(PARAMS, slo_ms=15_000)}
    world, rates = LiveWorld(replace(params, live=replace(params.live, lags=lags))), []
    for i, sample in enumerate(plant.looks(100)):
        now_ms = world.now_ms
        world.feed(ReaderSampled(BOARD, (0,), ((0, sample._replace(position_at_ms=now_ms - 50, end_at_ms=now_ms)),)))
        if i == 20:
            world.copying()
        world.live(5)
        rates.append(world.directive_rate if i > 25 else MAX)
    assert min(rate for rate in rates[60:90] if rate is not None) > 0.5 * MAX
    assert ((rates[-1] or 0) < 0.5 * MAX) is is_slow
