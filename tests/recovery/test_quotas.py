"""The brokers' quota as a backstop: set before the first record, above the lease, never limiting it, and removed at the
end.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.effects import LaunchAttempt, SetQuota
from recoveryd.recovery.events import QuotasSwept
from recoveryd.recovery.spec import Limits
from tests.builders.core import command, make_facts, make_spec
from tests.builders.world import PARAMS, World

QUOTAS = replace(PARAMS, quotas_enabled=True)
RATE = 1_000_000.0


def begun(rate: float | None = RATE, world: World | None = None, *, records: int = 100_000) -> World:
    """A replay that runs, limited to `rate` bytes/s."""
    world = world or World(make_facts((0, records)), QUOTAS)
    world.feed(command("replay", spec=make_spec(limits=Limits(max_bytes_per_s=rate))))
    world.run_until(State.RUNNING, State.STARTING)
    return world


def throttle(world: World, rate: float | None, command_id: str = "c2") -> None:
    world.feed(command("throttle", command_id=command_id, offset=int(command_id[1:]), max_bytes_per_s=rate))


def notices(world: World, kind: str) -> list[object]:
    return [dict(n.data) for n in world.notices if n.type == kind]


def test_a_limited_recovery_gets_one_and_a_half_times_its_lease_before_its_lanes_start() -> None:
    order: list[type] = []

    class Noting(World):
        def _run(self, effect):  # type: ignore[no-untyped-def]
            order.append(type(effect))
            return super()._run(effect)

    world = begun(world=Noting(make_facts((0, 100_000)), QUOTAS))
    assert world.quotas == {"r1": 1.5 * RATE}
    assert [t for t in order if t in {SetQuota, LaunchAttempt}] == [SetQuota, LaunchAttempt]
    assert notices(world, "quota_changed") == [{"bytes_per_s": 1.5 * RATE, "why": "a backstop above the lease"}]


def test_a_recovery_without_a_rate_has_no_quota_and_does_not_wait_for_one() -> None:
    world = begun(None)
    assert (world.quotas, world.quota_history, world.launches) == ({}, [], [("r1", 1)])


def test_nothing_is_asked_of_the_brokers_where_quotas_are_switched_off() -> None:
    world = World(make_facts((0, 100_000)), PARAMS)
    world.quotas = {"left": 7.0}
    begun(world=world)
    world.second(60)
    assert (world.quotas, world.quota_history, world.launches) == ({"left": 7.0}, [], [("r1", 1)])


def test_a_sweep_that_was_asked_for_before_a_recovery_went_on_takes_its_quota_for_a_moment_only() -> None:
    world = begun(8 * RATE)
    world.run_until(State.RUNNING)
    world.quotas = {}
    world.feed(QuotasSwept("main", (), ("r1",)))
    world.second(2)
    assert world.quotas == {"r1": 12 * RATE}


def test_a_higher_rate_raises_the_quota_at_once() -> None:
    world = begun()
    throttle(world, 50 * RATE)
    assert world.quotas == {"r1": 75 * RATE}


def test_a_cut_is_made_in_steps_of_four_that_wait_for_the_silence_of_the_one_before() -> None:
    world = begun(100 * RATE)
    throttle(world, RATE)
    began_ms = world.now_ms
    world.second(120)
    steps = [(at - began_ms, rate) for at, rate in world.quota_history[1:]]
    assert [rate for _, rate in steps] == [37.5 * RATE, 9.375 * RATE, 2.34375 * RATE, 1.5 * RATE]
    assert [at for at, _ in steps] == [0, 33_000, 66_000, 99_000]


def test_a_rise_in_the_middle_of_a_cut_does_not_wait() -> None:
    world = begun(100 * RATE)
    throttle(world, RATE)
    throttle(world, 60 * RATE, "c3")
    assert world.quotas == {"r1": 90 * RATE}


def test_a_backstop_does_not_follow_each_small_step_of_the_rate() -> None:
    world = begun()
    throttle(world, 1.04 * RATE)
    world.second(60)
    assert world.quota_history == [(world.quota_history[0][0], 1.5 * RATE)]


def test_lifting_the_rate_removes_the_quota() -> None:
    world = begun()
    throttle(world, None)
    assert (world.quotas, world.quota_history[-1][1]) == ({}, None)


@pytest.mark.parametrize("end", [State.COMPLETED, State.STOPPED])
def test_the_end_of_a_recovery_removes_its_quota(end: State) -> None:
    world = begun(records=100 if end is State.COMPLETED else 100_000)
    if end is State.STOPPED:
        world.feed(command("stop", offset=2))
    world.run_until(end)
    assert world.quotas == {}
    world.second(120)
    assert [rate for _, rate in world.quota_history] == [1.5 * RATE, None]


def test_a_paused_recovery_loses_its_quota_with_its_application_and_gets_it_back() -> None:
    world = begun()
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=2))
    world.run_until(State.PAUSED)
    assert world.quotas == {"r1": 1.5 * RATE}
    world.second(QUOTAS.paused_keep_application_ms // 1_000 + 5)
    assert (world.recovery().attempt.released, world.quotas) == (True, {})
    world.feed(command("resume", offset=3))
    assert world.quotas == {"r1": 1.5 * RATE}
    assert world.launches == [("r1", 1), ("r1", 2)]


@pytest.mark.scenario("S-RUN-25")
def test_a_cluster_that_refuses_is_told_about_once_and_the_recovery_goes_on() -> None:
    world = World(make_facts((0, 100)), QUOTAS)
    world.quota_refusal = "not authorised"
    world.restart_daemon()
    begun(world=world)
    assert world.run_until(State.COMPLETED).verification.result == "match"
    world.second(120)
    refused = [(n.subject, n.data["message"]) for n in world.notices if n.type == "quota_refused"]
    assert refused == [("", "not authorised"), ("r1", "not authorised")]


def test_a_cluster_that_does_not_answer_holds_the_start_up_for_a_moment_only() -> None:
    world = World(make_facts((0, 100)), QUOTAS)
    world.failing = {"SetQuota"}
    world.feed(command("replay", spec=make_spec(limits=Limits(max_bytes_per_s=RATE))))
    world.second(14)
    assert world.launches == []
    world.second(1)
    assert world.launches == [("r1", 1)]
    world.failing = set()
    assert world.run_until(State.COMPLETED).state is State.COMPLETED
    assert world.quotas == {}


def test_the_quota_of_a_recovery_that_ended_while_its_cluster_was_away_is_swept_later() -> None:
    world = begun()
    world.run_until(State.RUNNING)
    world.failing = {"SetQuota"}
    world.feed(command("stop", offset=2))
    world.run_until(State.STOPPED)
    assert world.quotas == {"r1": 1.5 * RATE}
    world.second(31)
    assert world.quotas == {}
    assert notices(world, "quotas_removed") == [{"cluster": "main", "recoveries": ["r1"]}]


@pytest.mark.scenario("S-RUN-26b")
def test_what_a_dead_daemon_left_is_removed_and_what_goes_on_is_kept() -> None:
    world = begun(8 * RATE)
    world.run_until(State.RUNNING)
    world.quotas |= {"gone": 3.0, "long-ended": 4.0}
    world.restart_daemon()
    assert world.quotas == {"r1": 12 * RATE}
    assert notices(world, "quotas_removed") == [{"cluster": "main", "recoveries": ["gone", "long-ended"]}]


def test_a_new_leader_cuts_from_what_the_brokers_hold_and_not_in_one_go() -> None:
    world = begun(100 * RATE)
    world.run_until(State.RUNNING)
    world.lost_effects = True
    throttle(world, RATE)
    world.restart_daemon()
    assert world.quotas == {"r1": 37.5 * RATE}


def test_a_daemon_that_died_between_the_end_and_the_removal_leaves_nothing_for_long() -> None:
    world = begun()
    world.run_until(State.RUNNING)
    world.feed(command("stop", offset=2))
    world.run_until(State.STOPPED)
    world.quotas = {"r1": 1.5 * RATE}  # as if the removal had not been run
    world.restart_daemon()
    assert world.quotas == {}


def spread(world: World, leaders: dict[int, int]) -> World:
    """A sample with these leaders of the two partitions, for both topics."""
    world.leaders, world.target_partitions = leaders, 2
    world.second(10)
    return world


def test_a_quota_is_the_share_of_the_busiest_broker_once_leaders_are_known() -> None:
    world = World(make_facts((10**6, 10**6)), QUOTAS)
    assert begun(world=world).quotas == {"r1": 1.5 * RATE}
    assert spread(world, {0: 1, 1: 2}).quotas == {"r1": 0.75 * RATE}  # a lane and half of the lease on each
    assert spread(world, {0: 1, 1: 1}).quotas == {"r1": 1.5 * RATE}  # a leader moved
    assert spread(world, {0: 1, 1: -1}).quotas == {"r1": 1.5 * RATE}  # one is not known


def test_a_quota_follows_when_the_work_ends_on_one_broker() -> None:
    world = World(make_facts((200, 2_000)), QUOTAS, speed=10)
    begun(world=world)
    assert spread(world, {0: 1, 1: 2}).quotas["r1"] == 1.5 * RATE  # nearly all of the work is on one of them
    world.second(30)  # the short partition is done: all of the lease passes the other broker
    assert world.recovery().state is State.RUNNING
    assert world.quotas == {"r1": 1.5 * RATE}
    world.run_until(State.COMPLETED)
    world.second(2)
    assert world.quotas == {}
