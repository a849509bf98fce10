"""A watched group is judged by how it reads, as the config says: committed records only, or no faster than so much."""

from dataclasses import replace

from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.slice import LIVE
from tests.builders.live_world import BOARD, LAG, LATENCY, LiveWorld, make_params

MINUTE_MS = 60_000


def world(**ways: object) -> LiveWorld:
    params = make_params(LATENCY, LAG)
    lags = {BOARD: replace(params.live.lag, **ways)}  # type: ignore[arg-type]
    return LiveWorld(replace(params, live=replace(params.live, lags=lags)))


def look(world: LiveWorld, position: int, end: int, last_stable: int) -> LagVerdict:
    """What is thought of the group after one more look at its only partition."""
    sample = LagSample(position, world.now_ms - 10, end, world.now_ms, last_stable=last_stable)
    world.feed(ReaderSampled(BOARD, (0,), ((0, sample),)))
    world.live(5)
    return world.state.of(LIVE).protecting.lags[BOARD].group.verdict


def test_a_group_that_reads_committed_records_is_blocked_by_a_transaction_that_stays_open() -> None:
    committed, other = world(is_read_committed=True), LiveWorld(make_params(LATENCY, LAG))
    begun_ms = committed.now_ms
    while committed.now_ms - begun_ms <= LagParams().blocked_after_ms:
        verdicts = look(committed, 100, 900, 100), look(other, 100, 900, 100)
    assert verdicts[0] in {LagVerdict.OK, LagVerdict.IDLE}
    assert look(committed, 100, 900, 100) is LagVerdict.BLOCKED_BY_TXN
    assert look(other, 100, 900, 100) in {LagVerdict.STALLED, LagVerdict.STOPPED}


def test_a_marker_at_the_end_is_no_lag_of_a_group_that_reads_committed_records() -> None:
    committed, other = world(is_read_committed=True), LiveWorld(make_params(LATENCY, LAG))
    for _ in range(20):
        verdicts = look(committed, 99, 100, 100), look(other, 99, 100, 100)
    assert verdicts == (LagVerdict.IDLE, LagVerdict.STALLED)


def test_a_position_that_jumps_further_than_the_group_reads_skipped_records() -> None:
    slow, other = world(advance_most_per_s=50.0), LiveWorld(make_params(LATENCY, LAG))
    for position in range(0, 1_000, 100):
        look(slow, position, 100_000, 100_000)
        look(other, position, 100_000, 100_000)
    assert look(slow, 99_000, 100_000, 100_000) is LagVerdict.INVALID
    assert look(other, 99_000, 100_000, 100_000) is LagVerdict.CATCHING_UP
