"""What controllers learned outlives the daemon, in the daemon's own record."""

from dataclasses import replace

import pytest

from recoveryd.kernel.state import DaemonRecord
from recoveryd.live.keeping import begun, has_fallen, is_worth_keeping, kept_of
from recoveryd.live.law.memory import Memory
from recoveryd.live.law.types import ControllerState
from recoveryd.live.pressure import baseline_s
from recoveryd.wire.status_topic import daemon_from_document, daemon_to_document
from tests.builders.core import command, make_spec
from tests.builders.live_world import MAX, MIN, LiveWorld


def test_what_was_learned_comes_back_through_the_daemons_record() -> None:
    state = ControllerState(
        memory=Memory({3: 5e6, 4: 6e6}, {3: 9e6}, protects={"canary": 0.2, "lag:shop@orders": 30.0}),
        baselines={"canary": (0.004,) * 6, "new": (0.1,)},
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


def test_what_was_learned_of_another_cluster_of_this_name_is_forgotten() -> None:
    state = ControllerState(memory=Memory({3: 5e6}, harm_ms=7), baselines={"canary": (0.004,) * 6})
    here = kept_of({"main": state}, {"main": 11.0, "gone": 12.0})
    read = daemon_from_document(daemon_to_document(DaemonRecord(kept={"live": here}))).kept
    assert begun(read, "main", 11.0).memory == state.memory
    assert begun(read, "main", 11.5) == ControllerState()
    assert is_worth_keeping(read, kept_of({"main": state}, {"main": 11.5})), "else the next daemon forgets it too"
    assert begun({"live": kept_of({"main": state})}, "main", 11.0).memory == state.memory, "of an earlier release"


def test_harm_of_another_day_is_written_again() -> None:
    day_ms = 86_400_000
    before = {"live": kept_of({"main": ControllerState(memory=Memory({3: 80.0}, harm_ms=20_000 * day_ms))})}
    now = {"main": ControllerState(memory=Memory({3: 80.0}, harm_ms=20_003 * day_ms))}
    assert has_fallen(before, now)
    assert is_worth_keeping(before, kept_of(now))
    assert not is_worth_keeping({"live": kept_of(now)}, kept_of(now))


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


def test_for_whom_rates_were_safe_is_written_with_them_and_not_without() -> None:
    def kept(memory: Memory) -> dict[str, object]:
        return kept_of({"main": ControllerState(memory=memory)})

    before = kept(Memory({3: 5e6}))
    after = kept(Memory({3: 5e6}, protects={"lag:shop@orders": 30.0}))
    assert is_worth_keeping({"live": before}, after)
    assert not is_worth_keeping({"live": after}, after)
    assert kept(Memory(protects={"lag:shop@orders": 30.0})) == {}


def test_a_rate_that_is_kept_as_safe_and_was_too_much_is_known_at_once() -> None:
    state = ControllerState(memory=Memory({3: 80.0}, {4: 90.0}))
    kept = {"live": kept_of({"main": state})}
    assert not has_fallen(kept, {"main": state})
    assert not has_fallen(kept, {"main": replace(state, memory=Memory({3: 75.0, 5: 1.0}, {4: 95.0}))})
    assert has_fallen(kept, {"main": replace(state, memory=Memory({3: 60.0}, {4: 90.0}))})
    assert has_fallen(kept, {"main": replace(state, memory=Memory({3: 80.0}, {4: 60.0}))})
    assert not has_fallen({}, {"main": state})
    assert has_fallen(kept, {"main": replace(state, memory=replace(state.memory, harm_ms=5))})


def test_a_cut_is_journaled_without_waiting_for_the_minute() -> None:
    world = LiveWorld().copying(max_bytes_per_s=1_000.0)
    world.live(200)
    before = max(world.state.daemon.kept["live"]["main"]["safe"].values())
    world.latency_s = lambda: 1.0
    world.live(20)
    assert max(world.state.daemon.kept["live"]["main"]["safe"].values()) <= 0.8 * before


def test_what_is_kept_of_clusters_and_signals_that_are_gone_is_dropped() -> None:
    world = LiveWorld()
    kept = {"live": {"gone": {"safe": {"3": 5.0}}, "main": {"rest": {"old": 0.01, "produce_latency": 0.01}}}}
    world.state = replace(world.state, daemon=replace(world.state.daemon, kept=kept))
    world.live(70)
    world.feed(command("replay", spec=make_spec()))
    world.live(130)
    live = world.state.daemon.kept["live"]
    assert set(live) == {"main"}
    assert set(live["main"]["rest"]) == {"produce_latency"}


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
