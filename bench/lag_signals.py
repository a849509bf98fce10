"""A daemon's state beside groups whose lag other programs report, and their reports: each is of a configured group and
fresh, so that a verdict is made of it.
"""

from collections.abc import Sequence
from dataclasses import replace

from bench.control import encoded, lag_signal
from bench.recoveries import NOW_MS
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import TopicSample
from recoveryd.live.lag.book import LagBook, Reader, with_samples
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import LiveParams
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.live.slice import LIVE, LiveSlice, SampleHistory

PARTITIONS = 8
PERIOD_MS = 5_000  # each group is reported so often
_TOPIC, _CLUSTER = "flights.live", "main"
_FIRST, _GROWS = 1_000_000, 100  # the log end of each partition, and its growth from report to report
_LAG = LagParams(period_ms=PERIOD_MS)


def live_params(groups: int) -> LiveParams:
    """So many groups are protected, and nothing else."""
    readers = _readers(groups)
    protections = tuple(Protection(r.group, SignalKind.LAG, 30.0) for r in readers)
    return LiveParams(
        domains={_CLUSTER: ControllerParams(protections=protections)},
        lag=_LAG,
        readers=frozenset(readers),
        protected={reader: reader.group for reader in readers},
    )


def with_full_windows(state: CoreState, groups: int) -> CoreState:
    """The state after so many reports about each group that more of them make no window longer."""
    readers, book = _readers(groups), LagBook()
    one = readers[0]
    for turn in range(-_LAG.points, 0):
        at_ms = NOW_MS + turn * PERIOD_MS
        told = [(p, LagSample(_end(turn) - p, at_ms, _end(turn), at_ms)) for p in range(PARTITIONS)]
        book = with_samples(book, one, told, at_ms, _LAG, frozenset({one}))
    ends = dict.fromkeys(range(PARTITIONS), _end(0))
    seen = TopicSample(_CLUSTER, _TOPIC, "id", dict.fromkeys(ends, 0), ends, ends, NOW_MS, PARTITIONS)
    before = state.of(LIVE)
    protecting = replace(before.protecting, book=LagBook(dict.fromkeys(readers, book.readers[one])))
    samples = {**before.samples, (_CLUSTER, _TOPIC): SampleHistory((seen,))}
    return state.having(LIVE, LiveSlice(protecting, samples))


def reports(groups: int, count: int) -> list[tuple[int, bytes]]:
    """So many signals, group after group: when each is decided, and its record."""
    found = []
    for number in range(count):
        at_ms = NOW_MS + number * PERIOD_MS // groups
        signal = lag_signal(_name(number % groups), _TOPIC, PARTITIONS, _end(number // groups), at_ms)
        found.append((at_ms, encoded(signal)))
    return found


def check_judged(state: CoreState, groups: int) -> None:
    """Raises RuntimeError when a signal of `reports` was refused, or led to no verdict."""
    protecting = state.of(LIVE).protecting
    known = [lag.group for lag in protecting.lags.values() if lag.group.coverage == 1.0]
    refused = {**protecting.rejections, **protecting.book.rejections}
    if refused or len(known) < groups:
        raise RuntimeError(f"{len(known)} of {groups} groups were judged; refused samples: {refused}")


def _readers(groups: int) -> Sequence[Reader]:
    return [Reader(_CLUSTER, _TOPIC, _name(number)) for number in range(groups)]


def _name(number: int) -> str:
    return f"group-{number}"


def _end(turn: int) -> int:
    return _FIRST + turn * _GROWS
