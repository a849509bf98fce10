"""What controllers learned outlives the daemon, in the daemon's own record."""

import pytest

from recoveryd.kernel.state import DaemonRecord
from recoveryd.live.keeping import begun, is_worth_keeping, kept_of
from recoveryd.live.law.memory import Memory
from recoveryd.live.law.types import ControllerState
from recoveryd.live.pressure import baseline_s
from recoveryd.wire.status_topic import daemon_from_document, daemon_to_document
from tests.builders.live_world import MAX, MIN, LiveWorld


def test_what_was_learned_comes_back_through_the_daemons_record() -> None:
    state = ControllerState(
        memory=Memory({3: 5e6, 4: 6e6}, {3: 9e6}), baselines={"canary": (0.004,) * 6, "new": (0.1,)}
    )
    record = DaemonRecord(kept={"live": kept_of({"main": state, "empty": ControllerState()})})
    read = daemon_from_document(daemon_to_document(record))
    again = begun(read.kept, "main")
    assert again.memory == state.memory
    assert baseline_s(again.baselines["canary"], 1.0) == pytest.approx(0.004)
    assert set(again.baselines) == {"canary"}
    assert begun(read.kept, "empty") == begun({}, "main") == ControllerState()


def test_a_restart_does_not_forget_that_a_signal_is_noisy() -> None:
    state = ControllerState(baselines={"canary": (0.004,) * 20 + (0.3,) + (0.004,) * 5, "calm": (0.004,) * 6})
    record = DaemonRecord(kept={"live": kept_of({"main": state})})
    again = begun(daemon_from_document(daemon_to_document(record)).kept, "main")
    assert max(again.baselines["canary"]) == 0.3
    assert max(again.baselines["calm"]) == 0.004
    assert baseline_s(again.baselines["canary"], 1.0) == pytest.approx(0.004)
    assert kept_of({"main": again}) == record.kept["live"]


@pytest.mark.parametrize(
    "kept",
    [
        {"live": []},
        {"live": {"main": 3}},
        {"live": {"main": {"safe": {"x": 1.0, "99": 2.0, "5": -1.0, "6": None}, "rest": "?"}}},
        {"live": {"main": {"rest": {"canary": float("inf")}}}},
    ],
)
def test_what_cannot_be_read_is_forgotten(kept: dict[str, object]) -> None:
    assert begun(kept, "main") == ControllerState()


def test_only_what_is_new_or_changed_by_a_tenth_is_written_again() -> None:
    def kept(rate: float, rest_s: float) -> dict[str, object]:
        return kept_of({"main": ControllerState(memory=Memory({3: rate}), baselines={"c": (rest_s,) * 6})})

    before = {"live": kept(100.0, 0.010)}
    assert not is_worth_keeping(before, kept(105.0, 0.0105))
    assert is_worth_keeping(before, kept(120.0, 0.010))
    assert is_worth_keeping(before, kept(100.0, 0.012))
    assert is_worth_keeping({}, kept(100.0, 0.010))


def test_a_restarted_daemon_goes_on_where_it_was_safe_as_soon_as_samples_come() -> None:
    world = LiveWorld().copying()
    world.live(200)
    assert world.directive_rate == MAX
    assert world.state.daemon.kept["live"]["main"]["rest"] == {"produce_latency": 0.01}
    healthy, world.latency_s = world.latency_s, None
    world.restart_daemon()
    world.live(10)
    assert world.directive_rate == MIN
    world.latency_s = healthy
    world.live(26)
    assert world.directive_rate > 0.8 * MAX


def test_the_next_replay_begins_where_the_last_one_was_safe() -> None:
    world = LiveWorld().copying(max_bytes_per_s=1_000.0)
    world.live(200)
    kept = world.state.daemon.kept["live"]["main"]["safe"]
    assert max(kept.values()) == pytest.approx(1_000.0, rel=0.15)
