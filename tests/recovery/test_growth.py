"""Partitions that are added while a recovery runs: they are copied, named in a finding, or end the copy, but are never
ignored.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery import size
from recoveryd.recovery.spec import Never
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd_jobs.contract import Verification
from tests.builders.core import FOLLOWING, command, make_facts, make_spec, make_target
from tests.builders.world import PARAMS, World, illegal_moves

KEYED = TargetRef("flights.v2", mapping="key_hash")


def following(spec: ReplaySpec = FOLLOWING, width: int = 2, ends: tuple[int, ...] = (100, 50)) -> World:
    world = World(make_facts(ends, target=make_target(width)))
    world.feed(command("replay", spec=spec))
    world.run_until(State.RUNNING)
    return world


def grow(world: World, records: int = 300, first: int = 2, count: int = 2) -> None:
    for partition in range(first, first + count):
        world.ends[partition] = records
        world.log_starts[partition] = 0


@pytest.mark.parametrize(("spec", "width"), [(FOLLOWING, 4), (make_spec(stop=FOLLOWING.source.stop, target=KEYED), 2)])
def test_new_partitions_of_a_followed_source_are_copied_from_their_first_offset(spec: ReplaySpec, width: int) -> None:
    world = following(spec, width)
    grow(world)
    done = world.run_until(State.COMPLETED)
    assert done.plan is not None
    assert [(p.partition, p.start) for p in done.plan.partitions] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert done.plan.lanes == ((0, 2), (1, 3))
    assert [(r.partition, r.start, r.stop, r.copied) for r in done.completeness] == [
        (0, 0, 100, 100),
        (1, 0, 50, 50),
        (2, 0, 300, 300),
        (3, 0, 300, 300),
    ]
    assert world.launches == [("r1", 1), ("r1", 2)]
    assert done.attempt.failures == 0
    assert done.stop is not None
    assert {p["partition"] for p in done.stop.evidence["partitions"]} == {0, 1, 2, 3}  # type: ignore[index, attr-defined]


def test_the_revised_plan_survives_the_death_of_the_daemon() -> None:
    world = following(width=3)
    grow(world, count=1)
    world.second(6)
    world.restart_daemon(applications_die=True)
    done = world.run_until(State.COMPLETED)
    assert [r.copied for r in done.completeness] == [100, 50, 300]


def test_partitions_for_which_the_target_has_no_place_are_named_and_the_run_is_never_complete() -> None:
    world = following()
    grow(world)
    world.second(120)
    running = world.recovery()
    assert running.state is State.RUNNING
    assert running.why == (
        "partitions 2 to 3 were added to flights, which had 2; flights.v2 has 2: give it 4, and they are copied"
    )
    assert running.attempt.number == 1
    world.target_partitions = 4
    done = world.run_until(State.COMPLETED)
    assert [r.copied for r in done.completeness] == [100, 50, 300, 300]
    assert all(f.code != "source_grew_past_target" for f in done.plan.findings)  # type: ignore[union-attr]


def test_more_partitions_than_one_recovery_can_have_are_not_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "_COPIED_BYTES", 3_000_000)
    world = following(width=4)
    grow(world)
    world.second(120)
    running = world.recovery()
    assert running.state is State.RUNNING
    assert "4 partitions need 12.0 MB to be noted, and one recovery takes 8 MB: follow them" in running.why
    assert [p.partition for p in running.plan.partitions] == [0, 1]  # type: ignore[union-attr]


def test_a_source_that_grows_while_the_run_ends_is_not_complete() -> None:
    world = following(width=4)
    world.run_until(State.STOPPING)
    grow(world)
    ended = world.run_until(State.STOPPED, State.COMPLETED)
    assert ended.state is State.STOPPED
    assert "partitions (2, 3) were added meanwhile and are not copied" in ended.why


def test_a_source_that_grew_while_the_run_ended_is_seen_also_when_the_clock_was_set_back_meanwhile() -> None:
    world = following(width=4)
    world.run_until(State.STOPPING)
    grow(world)
    world.now_ms -= 3_600_000
    world.restart_daemon()
    ended = world.run_until(State.STOPPED, State.COMPLETED, seconds=60)
    assert "partitions (2, 3) were added meanwhile and are not copied" in ended.why
    assert ended.error_code == Code.PARTITIONS_UNCOPIED.value


def test_a_look_whose_partitions_were_counted_before_the_end_does_not_tell() -> None:
    world = following(width=4)
    world.run_until(State.STOPPING)
    old = world.sample().topics[0]
    grow(world)
    for _ in range(2):
        world.now_ms += 5_000
        stale = replace(old, sampled_at_ms=world.now_ms, described_ms=world.now_ms - 14_000)
        world.feed(OffsetsSampled((stale,)))
    assert world.recovery().state is State.STOPPING
    assert world.run_until(State.STOPPED, State.COMPLETED).state is State.STOPPED


def test_a_source_at_which_nobody_could_look_when_the_run_ended_is_not_complete() -> None:
    world = following(width=4)
    world.run_until(State.STOPPING)
    world.sees_source = False
    grow(world)
    world.second(110)
    assert world.recovery().state is State.STOPPING
    ended = world.run_until(State.STOPPED, State.COMPLETED)
    assert (ended.state, ended.stop.reason) == (State.STOPPED, StopReason.ZERO_LAG)  # type: ignore[union-attr]
    assert "nobody could look whether partitions were added to flights meanwhile" in ended.why
    assert ended.error_code == Code.PARTITIONS_UNCOPIED.value
    assert sum(r.unexplained for r in ended.completeness) == 0


def test_where_looks_are_rare_it_waits_for_the_next_ones() -> None:
    rare = replace(PARAMS, sample_period_ms=100_000)
    world = World(make_facts((100, 50), target=make_target(4)), rare)
    world.feed(command("replay", spec=FOLLOWING))
    world.run_until(State.STOPPING, seconds=3_600)
    world.sees_source = False
    world.second(250)
    assert world.recovery().state is State.STOPPING
    assert world.run_until(State.STOPPED, State.COMPLETED).state is State.STOPPED


def test_a_source_that_grew_before_its_copy_was_proved_is_not_complete_and_has_its_verdict() -> None:
    world = following(width=4)
    world.verdict = Verification("match", 150, 150, "d", uncopied={2: 300, 3: 1})
    ended = world.run_until(State.STOPPED, State.COMPLETED)
    assert (ended.state, ended.verification) == (State.STOPPED, world.verdict)
    assert ended.why.endswith("partitions (2, 3) were added meanwhile and are not copied")
    assert ended.error_code == Code.PARTITIONS_UNCOPIED.value
    assert State.VERIFYING in [m[2] for m in world.moves]
    assert illegal_moves(world) == []


@pytest.mark.parametrize("spec", [make_spec(), make_spec(stop=FOLLOWING.source.stop, partitions=(0, 1))])
def test_what_is_added_to_a_pinned_source_is_no_part_of_it_and_a_finding_says_so(spec: ReplaySpec) -> None:
    world = following(spec, 4, (400, 400))
    grow(world)
    done = world.run_until(State.COMPLETED)
    assert [r.partition for r in done.completeness] == [0, 1]
    assert world.launches == [("r1", 1)]
    assert "partitions 2 to 3 were added to flights, which had 2; not part of this range" in [
        f.message
        for f in done.plan.findings  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize("stop", [None, Never()])
def test_a_target_that_grows_under_keys_that_we_place_ends_the_copy_by_name(stop: Never | None) -> None:
    world = following(make_spec(stop=stop, target=KEYED), 2, (4000, 4000))
    world.target_partitions = 3
    failed = world.run_until(State.FAILED)
    assert (failed.error_code, failed.stop.reason) == ("RCV-2006", StopReason.TARGET_UNAVAILABLE)  # type: ignore[union-attr]
    assert "flights.v2 has 3 partitions now, planned were 2: keys would be placed elsewhere" in failed.why


def test_a_target_that_grows_is_no_matter_where_partitions_keep_their_numbers() -> None:
    world = following(make_spec(), 2, (400, 400))
    world.target_partitions = 3
    assert world.run_until(State.COMPLETED)


def test_a_paused_recovery_takes_new_partitions_along_when_it_runs_again() -> None:
    world = following(width=4)
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    grow(world)
    world.second(10)
    world.feed(command("resume", offset=2))
    done = world.run_until(State.COMPLETED)
    assert [r.copied for r in done.completeness] == [100, 50, 300, 300]
