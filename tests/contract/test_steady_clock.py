"""The daemon's own time: steady whatever is done to the wall clock, and never far from it for long."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd.adapters.clock import SLEWED_AT_MOST_MS, STANDS_S, SystemClock
from recoveryd.live.freshness import FreshnessParams

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall_ms, self.up_s = START_MS, 100.0
        self.clock = SystemClock(lambda: self.wall_ms, lambda: self.up_s)

    def let_pass(self, seconds: float) -> int:
        """How far the daemon's time came meanwhile."""
        before_ms = self.clock.now_ms()
        self.wall_ms += round(seconds * 1000)
        self.up_s += seconds
        return self.clock.now_ms() - before_ms


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, SLEWED_AT_MOST_MS + 1_000, -SLEWED_AT_MOST_MS - 1_000])
def test_a_clock_that_is_set_does_not_move_the_daemons_time_until_it_is_adopted(by_ms: int) -> None:
    machine = Machine()
    machine.wall_ms += by_ms
    assert machine.clock.set_by_ms() == 0, "just seen, and may be corrected at once"
    assert machine.let_pass(STANDS_S) == 1000 * STANDS_S
    assert machine.let_pass(30) == 30_000
    assert machine.clock.set_by_ms() == by_ms
    machine.clock.adopt()
    assert machine.clock.now_ms() == machine.wall_ms
    assert machine.clock.set_by_ms() == 0
    assert machine.let_pass(30) == 30_000


def test_a_machine_that_slept_is_known_at_once_by_its_wall_clock() -> None:
    machine = Machine()
    assert not machine.clock.differs()
    machine.wall_ms += HOUR_MS
    assert machine.clock.differs()
    machine.clock.adopt()
    assert not machine.clock.differs()


def test_a_clock_that_is_set_and_at_once_corrected_was_never_set() -> None:
    machine = Machine()
    machine.wall_ms += HOUR_MS
    machine.let_pass(1)
    machine.wall_ms -= HOUR_MS
    machine.let_pass(10)
    assert (machine.clock.set_by_ms(), machine.clock.now_ms()) == (0, machine.wall_ms)


@pytest.mark.parametrize("by_ms", [5_000, -5_000])
def test_a_small_difference_is_made_up_for_by_a_tenth_of_the_time(by_ms: int) -> None:
    machine = Machine()
    machine.wall_ms += by_ms
    assert machine.let_pass(20) == 20_000 + 2_000 * (1 if by_ms > 0 else -1)
    machine.let_pass(40)
    assert machine.clock.now_ms() == machine.wall_ms
    assert machine.clock.set_by_ms() == 0


@pytest.mark.parametrize("by_ms", [3_000, -3_000, 10_000, -10_000, 59_000, -59_000, HOUR_MS])
def test_signals_with_the_right_time_are_refused_for_half_a_minute_at_most_after_the_clock_was_set(by_ms: int) -> None:
    machine = Machine()
    machine.wall_ms += by_ms
    for _ in range(32):
        machine.let_pass(1)
        if machine.clock.set_by_ms():
            machine.clock.adopt()  # as the runtime does
    assert abs(machine.clock.now_ms() - machine.wall_ms) <= FreshnessParams().future_ms


@given(st.lists(st.tuples(st.integers(-2 * HOUR_MS, 2 * HOUR_MS), st.floats(0, 100)), max_size=20))
def test_whatever_is_done_to_the_wall_clock_a_second_lasts_about_a_second(history: list[tuple[int, float]]) -> None:
    machine = Machine()
    for by_ms, seconds in history:
        machine.wall_ms += by_ms
        passed_ms = machine.let_pass(seconds)
        assert 900 * seconds - 2 <= passed_ms <= 1_100 * seconds + 2


def test_for_tests_the_offset_can_be_changed_while_the_daemon_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = tmp_path / "offset"
    offset.write_text("0")
    monkeypatch.setenv("RECOVERYD_CLOCK_OFFSET_MS", f"@{offset}")
    machine = Machine()
    offset.write_text(str(HOUR_MS))
    assert machine.let_pass(1) == 1_000
    machine.let_pass(STANDS_S)
    assert machine.clock.set_by_ms() == HOUR_MS
