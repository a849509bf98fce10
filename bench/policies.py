"""The rules of live protection alone, each at the size that the daemon must handle in one step: lag verdicts, and one
whole control decision.
"""

import time
from collections.abc import Callable, Mapping

from bench.result import Report, Row, Sample
from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Mode, Throttled, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.book import LagBook, Reader, evaluate_reader, lag_reading, with_samples
from recoveryd.live.lag.evaluate import evaluate_group
from recoveryd.live.lag.window import LagParams, LagSample, Window
from recoveryd.live.law.types import ControllerParams, ControllerState
from recoveryd.live.pressure import Protection, SignalKind

NAME = "policies"
_PARTITIONS, _LAG_MS = 10_000, 100.0
_RECOVERIES, _GROUPS, _PROTECTED_PARTITIONS, _CONTROL_MS = 50, 20, 2_000, 20.0
_START_MS, _PERIOD_MS = 1_800_000_000_000, 5_000
_REPORTS = 15  # more than a ring of positions holds
_TIMES = 5
_LAG = LagParams()


def measure(repeat: int) -> list[Report]:
    lone = Reader("main", "many", "lone")
    book = _book((lone,), _PARTITIONS)
    windows = book.readers[lone]
    now_ms = _START_MS + _REPORTS * _PERIOD_MS
    judged = evaluate_group(windows, range(_PARTITIONS), now_ms, _LAG)
    if judged.coverage != 1.0:
        raise RuntimeError(f"only {judged.coverage:.0%} of the partitions could be judged")
    evaluated = _sample(lambda: evaluate_group(windows, range(_PARTITIONS), now_ms, _LAG), repeat)
    rows_told = _report(_PARTITIONS, _REPORTS)
    taken = _sample(lambda: with_samples(book, lone, rows_told, now_ms, _LAG, frozenset({lone})), repeat)
    copied = _sample(lambda: _sums(windows), repeat)
    control, stepped = _control(repeat)
    size = f"{_RECOVERIES} recoveries, {_GROUPS} protected groups, {_PROTECTED_PARTITIONS:,} partitions"
    rows = (
        Row(f"lag verdicts of {_PARTITIONS:,} partitions", evaluated, "subtracting offsets", copied, at_most=_LAG_MS),
        Row(f"taking one report about {_PARTITIONS:,} partitions", taken, "judging them", evaluated),
        Row(f"control decision: {size}", control, "its controller step alone", stepped, at_most=_CONTROL_MS),
    )
    note = "processor time of the pure functions that the daemon calls; every window is full"
    return [Report("Rules of live protection, one core", rows, (note,))]


def _book(readers: tuple[Reader, ...], partitions: int) -> LagBook:
    """Readers that keep up to different degrees, with full windows."""
    book, watched = LagBook(), frozenset(readers)
    for turn in range(_REPORTS):
        rows = _report(partitions, turn)
        for reader in readers:
            book = with_samples(book, reader, rows, _START_MS + turn * _PERIOD_MS, _LAG, watched)
    return book


def _report(partitions: int, turn: int) -> list[tuple[int, LagSample]]:
    at_ms = _START_MS + turn * _PERIOD_MS
    positions = ((p, turn * 100 + p % 7 * (turn % 3)) for p in range(partitions))
    return [(p, LagSample(at, at_ms, 200 + turn * (100 + p % 5), at_ms, 0)) for p, at in positions]


def _sums(windows: Mapping[int, Window]) -> int:
    """The plain sum that a dashboard without verdicts would show."""
    return sum(w.ends[-1] - (w.position or 0) for w in windows.values())


def _control(repeat: int) -> tuple[Sample, Sample]:
    """A whole decision, from windows to grants; and only the controller's step and the shares."""
    readers = tuple(Reader("main", "orders", f"group-{n}") for n in range(_GROUPS))
    each = _PROTECTED_PARTITIONS // _GROUPS
    book = _book(readers, each)
    lags = tuple(Protection(r.group, SignalKind.LAG, 30.0) for r in readers)
    params = {"main": ControllerParams(protections=(Protection("produce_latency", SignalKind.LATENCY, 0.2), *lags))}
    claimants = {
        f"r{n:02d}": Claimant(Mode.CONTROLLED, Claim(1e4, 1e7, 1 + n % 3, n % 2), {"main": 1.0}, 1e6, 2e6)
        for n in range(_RECOVERIES)
    }
    states: Mapping[str, ControllerState] = {}

    def read(now_ms: int) -> DomainSignals:
        told = (lag_reading(r.group, evaluate_reader(book, r, range(each), now_ms, _LAG), now_ms) for r in readers)
        return DomainSignals((Reading("produce_latency", 0.013, now_ms), *(t for t in told if t is not None)))

    def decide(now_ms: int, signals: DomainSignals, *, at_rest: bool = False) -> Throttled:
        return throttle(states, {"main": signals}, {} if at_rest else claimants, now_ms, params)

    now_ms = _START_MS + (_REPORTS - 1) * _PERIOD_MS
    for step in range(40):  # until the latency at rest is known, and every track has its full length
        now_ms += 250
        states = decide(now_ms, read(now_ms), at_rest=step < 20).states
    found = decide(now_ms + 250, read(now_ms + 250))
    if len(found.grants) != _RECOVERIES or len(found.decisions["main"].pressures) < _GROUPS:
        raise RuntimeError(f"{len(found.grants)} grants by {len(found.decisions['main'].pressures)} signals")
    now_ms += 250
    signals = read(now_ms)
    return _sample(lambda: decide(now_ms, read(now_ms)), repeat), _sample(lambda: decide(now_ms, signals), repeat)


def _sample(work: Callable[[], object], repeat: int) -> Sample:
    """Milliseconds of processor time, one value per repetition."""
    found = []
    for _ in range(repeat):
        began_s = time.process_time()
        for _ in range(_TIMES):
            work()
        found.append((time.process_time() - began_s) * 1000 / _TIMES)
    return Sample(tuple(found), "ms")
