"""The detailed metrics of one recovery, and that counters exist before they count."""

from collections.abc import Iterable
from dataclasses import replace

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.metrics import Sample
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.freshness import Track
from recoveryd.live.law.types import ControllerState, Rule
from recoveryd.live.protecting import Protecting
from recoveryd.live.slice import LIVE
from recoveryd.recovery.measure_details import ENDED_AT_MOST, PARTITIONS_AT_MOST, details
from recoveryd.recovery.model import PartitionProgress
from recoveryd.recovery.params import Params
from recoveryd.recovery.progress import progress_ratio
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.spec import CaughtUp
from tests.builders.core import BOOK, FOLLOWING, NOW_MS, command, make_facts, make_spec, state_of
from tests.builders.deciding import make_decider
from tests.builders.world import World


def values(samples: Iterable[Sample]) -> dict[tuple[str, ...], float]:
    return {(s.metric.name.removeprefix("recoveryd_"), *s.labels): s.value for s in samples}


def of(world: World, name: str) -> dict[tuple[str, ...], float]:
    """Series of one metric without its name and the recovery."""
    found = values(list(details(world.state, world.now_ms)))
    return {key[2:]: value for key, value in found.items() if key[0] == name}


def running() -> World:
    world = World()
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    return world


def test_only_the_present_state_has_a_series() -> None:
    world = running()
    assert of(world, "recovery_state") == {("running",): 1}
    world.run_until(State.COMPLETED)
    assert of(world, "recovery_state") == {("completed",): 1}


def test_offsets_add_up_to_the_range_while_it_runs_and_when_it_ended() -> None:
    world = running()
    plan = world.recovery().plan
    assert plan is not None
    whole = sum((p.stop or 0) - p.start for p in plan.partitions)
    world.second(2)
    during = of(world, "recovery_offsets")
    assert (sum(during.values()), during["unexplained",], during["left",] > 0) == (whole, 0, True)
    world.run_until(State.COMPLETED)
    after = of(world, "recovery_offsets")
    assert (sum(after.values()), after["unexplained",], after["left",]) == (whole, 0, 0)


def test_after_a_pause_they_go_on_from_where_they_were() -> None:
    world = World(make_facts((1_000, 1_000)), speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(5)
    world.feed(command("pause", offset=1))
    world.second(10)
    assert world.recovery().state is State.PAUSED
    paused = of(world, "recovery_offsets")
    assert paused["left",] == 2_000 - paused["copied",] > 0
    world.feed(command("resume", offset=2))
    world.second(10)
    later = of(world, "recovery_offsets")
    assert later["copied",] > paused["copied",]
    assert later["left",] == 2_000 - later["copied",]


def test_what_keeps_a_recovery_at_rest_is_told_while_the_daemon_does() -> None:
    recovery = running().recovery()

    def held(state: State, why: str) -> dict[tuple[str, ...], float]:
        one = replace(recovery, state=state, held=why)
        found = values(list(details(state_of(Recoveries({"r1": one})), NOW_MS)))
        return {key: value for key, value in found.items() if key[0] == "recovery_held"}

    assert held(State.PAUSED, "live_slo") == {("recovery_held", "r1", "live_slo"): 1}
    assert held(State.PAUSED, "") == held(State.STOPPED, "live_slo") == {}


def test_positions_stand_against_their_stops_while_it_runs_and_are_gone_when_it_ended() -> None:
    world = running()
    world.second(2)
    rows = world.recovery().progress.partitions
    assert of(world, "partition_position_offset") == {(str(r.partition),): r.position for r in rows}
    assert of(world, "partition_stop_offset") == {(str(r.partition),): r.stop for r in rows}
    assert sum(of(world, "partitions").values()) == len(rows)
    world.run_until(State.COMPLETED)
    while not world.recovery().attempt.released:
        world.second(1)
    assert of(world, "partition_position_offset") == of(world, "partitions") == of(world, "lanes") == {}


def test_a_following_partition_stands_against_the_newest_end() -> None:
    world = World()
    world.feed(command("replay", spec=FOLLOWING))
    world.run_until(State.RUNNING)
    world.second(6)
    ends = next(iter(world.state.of(LIVE).samples.values())).samples[-1].high_watermark
    assert of(world, "partition_stop_offset") == {(str(p),): end for p, end in ends.items()}


def test_nothing_is_left_of_a_copy_that_is_over_though_the_head_of_its_source_goes_on() -> None:
    world = World(speed=50)
    world.live_per_s, world.verify_s = 3, 20
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.VERIFYING)
    world.second(6)
    proving = world.recovery()
    assert proving.state is State.VERIFYING
    assert (proving.progress.lag_records, progress_ratio(proving)) == (0, 1.0)
    assert of(world, "partition_stop_offset") == of(world, "partition_position_offset") != {}
    ended = world.run_until(State.COMPLETED)
    assert (ended.progress.lag_records, progress_ratio(ended)) == (0, 1.0)


def test_partitions_beyond_the_bound_only_count() -> None:
    world = running()
    recovery = world.recovery()
    many = tuple(PartitionProgress(p, 0, 9, "copying") for p in range(PARTITIONS_AT_MOST + 5))
    wide = replace(recovery, progress=replace(recovery.progress, partitions=many))
    found = values(list(details(state_of(Recoveries({"r1": wide, "r2": replace(wide, id="r2")})), world.now_ms)))
    assert len([key for key in found if key[0] == "partition_position_offset"]) == PARTITIONS_AT_MOST
    assert [found["partitions", name, "copying"] for name in ("r1", "r2")] == [len(many)] * 2


def test_of_many_ended_recoveries_only_the_newest_have_details() -> None:
    ended = running().run_until(State.COMPLETED)
    ended = replace(ended, attempt=replace(ended.attempt, released=True))
    names = [f"r{i}" for i in range(ENDED_AT_MOST + 50)]
    state = state_of(Recoveries({name: replace(ended, id=name) for name in names}))
    found = values(list(details(state, ended.updated_ms)))
    assert {key[1] for key in found} == set(names[50:])


def test_lanes_that_are_not_heard_are_silent() -> None:
    world = running()
    plan = world.recovery().plan
    assert plan is not None
    world.second(1)
    heard = of(world, "lanes")
    assert (heard["silent",], sum(heard.values())) == (0, len(plan.lanes))
    late = values(list(details(world.state, world.now_ms + 60_000)))
    assert {key[2]: n for key, n in late.items() if key[0] == "lanes"} == {"silent": len(plan.lanes)}


def test_the_end_is_told_with_its_reason_its_numbers_and_what_was_verified() -> None:
    world = running()
    done = world.run_until(State.COMPLETED)
    assert done.stop is not None
    assert done.verification is not None
    assert of(world, "recovery_stop_timestamp_seconds") == {("zero_lag", "bounded"): done.stop.at_ms / 1000}
    assert done.plan is not None
    ends = sum(p.stop or 0 for p in done.plan.partitions)
    assert of(world, "recovery_stop_evidence") == {
        ("partitions",): len(done.plan.partitions),
        ("partitions.position",): ends,
        ("partitions.stop",): ends,
    }
    assert of(world, "verification_records") == {
        ("match", "source"): done.verification.source_records,
        ("match", "target"): done.verification.target_records,
        ("match", "extra"): 0,
    }


def test_counters_with_known_labels_are_on_the_page_before_anything_happened() -> None:
    metrics = Metrics(BOOK.metrics)
    metrics.add(BOOK.first())
    page = metrics.render().decode()
    for reason in set(StopReason) - {StopReason.OPERATOR}:
        assert f'recoveryd_auto_stops_total{{reason="{reason}"}} 0.0' in page
    assert 'recoveryd_verifications_total{result="mismatch"} 0.0' in page
    assert 'recoveryd_signals_rejected_total{reason="not_a_number"} 0.0' in page
    assert 'recoveryd_commands_total{answer="accepted",verb="pause"} 0.0' in page
    assert "operator" not in page


def test_the_verbs_counted_from_the_start_are_those_of_the_commands() -> None:
    counted = {s.labels[0] for s in BOOK.first() if s.metric.name == "recoveryd_commands_total"}
    assert counted == {verb.verb for verb in make_decider(Params()).commands}


def test_counters_of_a_domain_begin_at_zero_when_its_controller_and_its_signals_do() -> None:
    before = Protecting()
    first = replace(before, states={"main": ControllerState(tracks={"lag": Track()})})
    second = replace(before, states={"main": ControllerState(tracks={"lag": Track(), "produce_latency": Track()})})
    began = values(BOOK.beginnings(state_of(protecting=before), state_of(protecting=first)))
    assert began == {("control_rule_total", "main", rule.name.lower()): 0 for rule in Rule} | {
        ("live_slo_violation_seconds_total", "main", "lag", answer): 0 for answer in ("yes", "no")
    }
    assert values(BOOK.beginnings(state_of(protecting=first), state_of(protecting=second))) == {
        ("live_slo_violation_seconds_total", "main", "produce_latency", answer): 0 for answer in ("yes", "no")
    }


def test_counters_of_its_topics_begin_at_zero_once_when_a_recovery_is_planned() -> None:
    world = World()
    before = world.state
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    spec = world.recovery().spec
    assert values(BOOK.beginnings(before, world.state)) == {
        ("records_total", "replay", spec.target.topic): 0,
        ("bytes_total", "replay", spec.target.topic): 0,
        ("records_lost_total", spec.source.topic): 0,
    }
    planned = world.state
    world.run_until(State.COMPLETED)
    assert list(BOOK.beginnings(planned, world.state)) == []
