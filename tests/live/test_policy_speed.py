"""The cost of the policies at a tick grows no faster than the data they look at. `bench` measures the time."""

from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Mode, Throttled, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.book import LagBook, Reader, evaluate_reader, lag_reading, with_samples
from recoveryd.live.lag.evaluate import evaluate_group
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample
from recoveryd.live.law.types import ControllerParams, ControllerState
from recoveryd.live.pressure import Protection, SignalKind
from tests.patience import lines_of

START_MS = 1_800_000_000_000
LAG = LagParams()


def windows_of(partitions: int) -> dict[int, Window]:
    """Full windows of readers that keep up unevenly."""
    found: dict[int, Window] = {}
    for partition in range(partitions):
        window = Window()
        for i in range(12):
            at_ms = START_MS + i * 5_000
            sample = LagSample(i * 100 + partition % 7 * (i % 3), at_ms, 9_000 + i * (100 + partition % 5), at_ms, 0)
            window = with_sample(window, sample, at_ms, LAG)
        found[partition] = window
    return found


def test_a_partition_more_costs_the_verdict_of_a_group_the_same_each_time() -> None:
    now_ms = START_MS + 55_500
    few, many = windows_of(350), windows_of(700)
    assert evaluate_group(many, range(700), now_ms, LAG).coverage == 1.0
    once = lines_of(lambda: evaluate_group(few, range(350), now_ms, LAG))
    assert lines_of(lambda: evaluate_group(many, range(700), now_ms, LAG)) <= 2.05 * once


def test_a_control_decision_costs_in_proportion_to_recoveries_groups_and_partitions() -> None:
    assert decision_lines(recoveries=20, groups=4, partitions=20) <= 2.1 * decision_lines(10, 2, 20)
    assert decision_lines(recoveries=10, groups=4, partitions=40) <= 2.1 * decision_lines(10, 4, 20)


def decision_lines(recoveries: int, groups: int, partitions: int) -> int:
    """Lines run by one decision, from windows to grants, after enough reports that every window is full."""
    readers = [Reader("main", "orders", f"g{i}") for i in range(groups)]
    watched, book = frozenset(readers), LagBook()
    protections = (
        Protection("produce_latency", SignalKind.LATENCY, 0.2),
        *(Protection(r.group, SignalKind.LAG, 30.0) for r in readers),
    )
    params = {"main": ControllerParams(protections=protections)}
    states: dict[str, ControllerState] = {}
    claimants = {
        f"r{i}": Claimant(Mode.CONTROLLED, Claim(1e4, 1e7, 1 + i % 3, i % 2), {"main": 1.0}, 1e6, 2e6)
        for i in range(recoveries)
    }

    def decide(now_ms: int) -> Throttled:
        groups = [(r.group, evaluate_reader(book, r, range(partitions), now_ms, LAG)) for r in readers]
        told = [lag_reading(name, group, now_ms) for name, group in groups]
        latency = Reading("produce_latency", 0.013, now_ms)
        readings = (latency, *(r for r in told if r is not None))
        return throttle(states, {"main": DomainSignals(readings)}, claimants, now_ms, params)

    for i in range(30):
        at_ms = START_MS + i * 5_000
        for reader in readers:
            report = [(p, LagSample(i * 100, at_ms, i * 100 + 10, at_ms, 0)) for p in range(partitions)]
            book = with_samples(book, reader, report, at_ms, LAG, watched)
        found = decide(at_ms)
        states = dict(found.states)
    assert len(found.grants) == recoveries
    assert found.decisions["main"].pressures
    return lines_of(lambda: decide(at_ms + 1_000))
