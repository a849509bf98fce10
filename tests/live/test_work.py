"""What only reads is less work per byte than what brings records: what was learned of one says nothing of the other."""

from dataclasses import replace

import pytest

from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Mode, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.law.memory import HOUR_MS, Memory, WorkKind, hour_of
from recoveryd.live.law.types import ControllerParams, Rule
from recoveryd.live.slice import LIVE
from tests.builders.core import command
from tests.builders.live_world import LiveWorld
from tests.live.control_rig import CEILING, FLOOR, PARAMS, PERIOD_MS, START_MS, Rig, latency_at, started

HOUR = hour_of(START_MS)


def reading(rig: Rig, z: float = 0.0) -> Rig:
    """The copy is over and its proof runs."""
    rig.work = WorkKind.READ
    rig.tick(z)
    return rig


def samples_by_step(rig: Rig) -> dict[int, float]:
    """Of the latency, at each step of rate but rest."""
    return {step: c.samples for step, c in rig.state.counted["produce_latency"].items() if step > 0}


def test_memory_keeps_both_kinds_apart() -> None:
    memory = Memory().with_safe(50.0, HOUR_MS).with_safe(90.0, HOUR_MS, WorkKind.READ).with_most(30.0, HOUR_MS)
    assert (memory.safe_at(HOUR_MS), memory.safe_at(HOUR_MS, WorkKind.READ)) == (30.0, 90.0)
    assert Memory().with_safe(90.0, HOUR_MS, WorkKind.READ).safe_at(HOUR_MS) is None


def test_a_proof_begins_at_the_rate_of_the_copy_and_grows_quickly_from_there() -> None:
    rig = reading(started(10.0))
    assert rig.state.rate == pytest.approx(10.0)
    rates = [rig.tick(0.0).wanted_bytes_per_s for _ in range(12)]
    assert rates[-1] >= 4 * 10.0


def test_a_proof_goes_on_growing_at_once_where_its_copy_used_next_to_nothing_of_any_slo() -> None:
    quick, slow = started(10.0).settle(0.0, lag_s=1.0), started(10.0).settle(0.0, lag_s=4.0)
    before, waiting = quick.state.rate, slow.state.rate
    quick.work = slow.work = WorkKind.READ
    rates = [quick.tick(0.0, lag_s=1.0).wanted_bytes_per_s for _ in range(3)]
    assert before < rates[0] < rates[1] < rates[2], rates
    assert slow.tick(0.0, lag_s=4.0).wanted_bytes_per_s == pytest.approx(waiting), "it waits for samples of its own"


def test_a_proof_waits_for_samples_of_its_own_where_the_copy_did_not_use_its_rate() -> None:
    rig = started(10.0).settle(0.0, lag_s=1.0)
    rate = rig.state.rate
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS + 1):
        rig.tick(0.0, lag_s=1.0, achieved=0.2)
    rate = rig.state.rate
    rig.work = WorkKind.READ
    decision = rig.tick(0.0, lag_s=1.0)
    assert (decision.rule, decision.wanted_bytes_per_s) == (Rule.GATE, pytest.approx(rate))


def test_a_proof_grows_on_from_what_its_copy_used_where_that_is_less_than_half_of_what_it_had() -> None:
    """To read is about half the work, so twice of it is what samples tell of."""
    rig = started(10.0).settle(0.0, lag_s=1.0)
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS + 1):
        rig.tick(0.0, lag_s=1.0, achieved=0.3 * rig.state.rate)
    told = 2 * 0.3 * rig.state.rate / PARAMS.achieved_least
    rig.work = WorkKind.READ
    rates = [rig.tick(0.0, lag_s=1.0).wanted_bytes_per_s for _ in range(3)]
    assert told <= rates[0] < 1.5 * told
    assert rates[0] < rates[1] < rates[2], rates


def test_harm_of_a_proof_that_grew_on_at_once_is_no_harm_of_the_copy() -> None:
    rig = started(10.0).settle(0.0, lag_s=1.0)
    rig.state = replace(rig.state, memory=Memory({HOUR: 50.0}))
    rig.work = WorkKind.READ
    rig.tick(0.0, lag_s=1.0)
    rig.tick(0.0, lag_s=31.0)
    assert rig.state.memory.knows_harm(rig.now_ms)
    assert (rig.state.memory.safe_at(rig.now_ms) or 0.0) > 45.0


def test_a_copy_behind_a_proof_waits_for_samples_of_its_own_however_little_is_used() -> None:
    rig = reading(started(10.0))
    for _ in range(6):
        rig.tick(0.0)
    rig.work = WorkKind.WRITE
    rates = {rig.tick(0.0, age_ms=PERIOD_MS).wanted_bytes_per_s, rig.tick(0.0, age_ms=2 * PERIOD_MS).wanted_bytes_per_s}
    assert len(rates) == 1, "no sample is of this work yet"


def test_what_a_proof_learned_is_not_where_the_next_copy_begins() -> None:
    rig = started(10.0)
    for _ in range(6):
        rig.tick(0.85)
    copied = rig.state.memory.safe_at(rig.now_ms)
    reading(rig)
    for _ in range(20):
        rig.tick(0.0)
    assert (rig.state.memory.safe_at(rig.now_ms, WorkKind.READ) or 0.0) > 50.0
    assert rig.state.memory.safe_at(rig.now_ms) == copied
    rig.work = WorkKind.WRITE
    rig.rest(3)
    assert rig.tick(0.0).wanted_bytes_per_s <= 1.1 * 10.0


def test_a_proof_begins_where_proofs_were_safe_if_live_traffic_is_well() -> None:
    rig = started(10.0)
    rig.state = replace(rig.state, memory=Memory({HOUR: 10.0}, {HOUR: 80.0}))
    rig.settle(0.3)
    assert reading(rig, 0.3).state.rate == pytest.approx(80.0)


def test_a_proof_begins_where_the_copy_ended_if_live_traffic_has_no_room() -> None:
    rig = started(10.0)
    rig.state = replace(rig.state, memory=Memory({HOUR: 10.0}, {HOUR: 80.0}))
    rig.settle(0.9)
    assert reading(rig, 0.9).state.rate <= 10.0


@pytest.mark.parametrize(("safe", "most"), [({}, 5.0), ({HOUR: 12.0}, 12.0)])
def test_a_copy_that_begins_under_a_proof_is_no_faster_than_was_safe_for_copies(
    safe: dict[int, float], most: float
) -> None:
    rig = reading(started(10.0))
    rig.state = replace(rig.state, rate=60.0, budget=60.0, memory=Memory(safe))
    rig.work = WorkKind.WRITE
    assert rig.tick(0.0).rate_bytes_per_s == pytest.approx(most)


def test_the_change_is_no_chance_to_be_over_the_slo_unseen() -> None:
    """Samples from before it cut nothing; those after it do."""
    rig = started(40.0)
    reading(rig)
    rates = [rig.tick(1.2).wanted_bytes_per_s for _ in range(3)]
    assert rates[-1] <= 0.7 * 40.0


def test_harm_soon_after_the_copy_ended_is_harm_of_the_copy_too() -> None:
    """A lag grows for a while before it is at its SLO."""
    soon, late = started(40.0), started(40.0)
    for rig in (soon, late):
        rig.state = replace(rig.state, memory=Memory({HOUR: 50.0}))
        reading(rig, 0.5)
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS):
        late.tick(0.5)
    soon.tick(0.5, lag_s=31.0)
    late.tick(0.5, lag_s=31.0)
    assert (soon.state.memory.safe_at(soon.now_ms) or 0.0) <= 30.0
    assert (late.state.memory.safe_at(late.now_ms) or 0.0) > 45.0


def test_what_was_counted_while_copying_comes_back_with_the_next_copy() -> None:
    rig = started(40.0)
    for _ in range(6):
        rig.tick(0.85)
    counted = samples_by_step(rig)
    reading(rig)
    rig.tick(0.0)
    assert sum(samples_by_step(rig).values()) <= 2
    rig.work = WorkKind.WRITE
    rig.tick(0.0)
    assert samples_by_step(rig) == counted


@pytest.mark.parametrize(
    ("writers", "expected"),
    [((), WorkKind.READ), (("a",), WorkKind.MIXED), (("a", "b"), WorkKind.WRITE), (("elsewhere",), WorkKind.READ)],
)
def test_a_domain_is_written_to_if_all_recoveries_bring_records_there_and_its_work_is_mixed_if_some_do(
    writers: tuple[str, ...], expected: WorkKind
) -> None:
    claims = {
        name: Claimant(
            Mode.CONTROLLED,
            Claim(FLOOR, CEILING),
            {"main": 1.0},
            0.0,
            writes=frozenset({"main"} if name in writers else ()),
        )
        for name in ("a", "b")
    }
    if "elsewhere" in writers:
        claims["a"] = replace(claims["a"], writes=frozenset({"dr"}))
    signals = {"main": DomainSignals((Reading("produce_latency", latency_at(0.0), START_MS),))}
    params: dict[str, ControllerParams] = {"main": PARAMS}
    assert throttle({}, signals, claims, START_MS, params).states["main"].work is expected


def test_what_copies_and_proofs_together_used_is_not_learned_as_safe_for_copies() -> None:
    rig = reading(started(10.0))
    rig.state = replace(rig.state, memory=Memory({HOUR: 10.0}))
    rig.work = WorkKind.MIXED
    for _ in range(20):
        rig.tick(0.0)
    assert rig.state.rate > 50.0
    assert rig.state.memory.safe_at(rig.now_ms) == 10.0
    # A cut tells that even less than that is too much.
    assert rig.state.memory.with_most(5.0, rig.now_ms, WorkKind.MIXED).safe_at(rig.now_ms) == 5.0


@pytest.mark.parametrize(("achieved", "most"), [(30.0, 30.0 / PARAMS.achieved_least), (1.0, 10.0), (None, 10.0)])
def test_when_the_proof_beside_it_ends_a_copy_does_not_get_what_that_had(achieved: float | None, most: float) -> None:
    rig = reading(started(10.0))
    rig.work = WorkKind.MIXED
    rig.tick(0.0)
    rig.state = replace(rig.state, rate=60.0, budget=60.0, published=60.0, memory=Memory({HOUR: 10.0}))
    rig.work = WorkKind.WRITE
    assert rig.tick(0.0, achieved=achieved).rate_bytes_per_s == pytest.approx(most)


def test_a_copy_beside_a_proof_begins_low_while_live_traffic_is_not_known_to_be_well() -> None:
    rig = reading(started(10.0))
    rig.state = replace(rig.state, rate=90.0, budget=90.0, memory=Memory({HOUR: 80.0}))
    rig.work = WorkKind.MIXED
    assert rig.tick(None, lag_s=None).rate_bytes_per_s == pytest.approx(0.05 * CEILING)


def test_a_proof_beside_a_copy_shares_its_rate() -> None:
    rig = started(10.0)
    rig.work = WorkKind.MIXED
    assert rig.tick(0.0).rate_bytes_per_s == pytest.approx(10.0)


@pytest.mark.parametrize("to", [WorkKind.READ, WorkKind.MIXED])
@pytest.mark.parametrize("is_critical", [True, False])
def test_what_is_over_the_slo_as_the_work_changes_is_cut_and_raises_nothing(to: WorkKind, is_critical: bool) -> None:
    rig = started(40.0)
    rig.state = replace(rig.state, memory=Memory({HOUR: 40.0}, {HOUR: 90.0}))
    rig.settle(0.3)
    before = rig.state.rate
    rig.work = to
    latency_s = (PARAMS.raw_guard if is_critical else 5.0) * 0.2
    more = (Reading("produce_latency", latency_s, rig.now_ms + 5_000, is_critical),)
    assert rig.tick(None, more=more).wanted_bytes_per_s <= 0.7 * before


def test_work_that_changes_to_and_fro_does_not_hide_what_live_traffic_says() -> None:
    rig = started(40.0)
    rates = []
    for turn in range(8):
        rig.work = (WorkKind.READ, WorkKind.WRITE)[turn % 2]
        rates.append(rig.tick(1.2).wanted_bytes_per_s)
    assert rates[-1] <= 0.7 * 40.0


@pytest.mark.parametrize(("kind", "expected"), [("replay", WorkKind.WRITE), ("verify", WorkKind.READ)])
def test_a_verification_only_reads(kind: str, expected: WorkKind) -> None:
    world = LiveWorld()
    world.verify_s = 1_000
    world.live(70)
    world.feed(command(kind))
    world.live(10)
    assert world.state.of(LIVE).protecting.states["main"].work is expected
