"""Handlers for what was seen of live traffic: offsets of consumer groups, measured latencies, signals of other programs
on the control topic.

They only take note. A changed verdict is told as an event; a reading waits for the next step of the controller
(`recoveryd.recovery.throttling`). A value that cannot be true is counted and not used: it never makes a lag zero and
never raises a rate.
"""

import math
from collections.abc import Iterable, Mapping

from recoveryd.kernel.events import SignalReceived
from recoveryd.live.events import OffsetsSampled, ReaderSampled, ReadingTaken
from recoveryd.live.evidence import lag_evidence
from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.lag.book import LagBook, Reader, evaluate_reader, lag_reading, samples_of_signal, with_samples
from recoveryd.live.lag.verdicts import SEVERITY, LagVerdict
from recoveryd.live.lag.window import LagSample, Window
from recoveryd.live.protecting import ReaderLag, grown
from recoveryd.live.signals import HealthSignal, LagSignal
from recoveryd.live.slice import LiveDraft

TELL_TROUBLE_EVERY_MS = 10_000
TELL_CALM_EVERY_MS = 60_000
_SECONDS = frozenset({"s", "seconds"})


def on_reader(draft: LiveDraft, event: ReaderSampled) -> None:
    """The collector looked at a consumer group."""
    if event.reader in draft.params.readers:
        _take(draft, event.reader, event.planned, event.samples)


def on_reading(draft: LiveDraft, event: ReadingTaken) -> None:
    """The daemon measured a latency."""
    draft.protecting = draft.protecting.with_reading(event.domain, event.reading, draft.params.domains)


def on_signal(draft: LiveDraft, event: SignalReceived) -> None:
    """Another program told what it measured."""
    if isinstance(event.signal, LagSignal):
        _on_lag(draft, event.signal)
    elif isinstance(event.signal, HealthSignal):
        _on_health(draft, event.signal)


def on_offsets(draft: LiveDraft, event: OffsetsSampled) -> None:
    """Keep a bounded history per topic."""
    for sample in event.topics:
        draft.remember(sample)


def refresh_lags(draft: LiveDraft) -> None:
    """Judge lags again that nobody reported for two periods: they are not known any more."""
    late_ms = 2 * draft.params.lag.period_ms
    for reader, known in draft.protecting.lags.items():
        age_ms = known.sample_age_ms(draft.now_ms)
        if age_ms is not None and age_ms > late_ms and known.group.coverage > 0:
            _judge(draft, reader, known.planned, draft.protecting.book)


def _on_lag(draft: LiveDraft, signal: LagSignal) -> None:
    reader = Reader(signal.cluster, signal.topic, signal.group)
    if reader not in draft.params.readers:
        draft.protecting = draft.protecting.with_rejections({RejectReason.UNKNOWN_NAME: 1})
        return
    known = draft.protecting.lags.get(reader)
    _take(draft, reader, _width(draft, signal) or (known.planned if known else ()), samples_of_signal(signal))


def _width(draft: LiveDraft, signal: LagSignal) -> tuple[int, ...]:
    """All partitions of the topic, whichever the signal names; none while the daemon has not seen the topic."""
    newest = draft.history((signal.cluster, signal.topic)).samples[-1:]
    return tuple(range(newest[0].partitions)) or tuple(sorted(newest[0].high_watermark)) if newest else ()


def _on_health(draft: LiveDraft, signal: HealthSignal) -> None:
    """A configured name becomes a reading of its cluster; any other name is not used here."""
    value, reason = _seconds_of(draft, signal)
    if value is None:
        draft.protecting = draft.protecting.with_rejections({reason: 1})
        return
    reading = Reading(signal.name, value, signal.sampled_at_ms, signal.status == "critical")
    draft.protecting = draft.protecting.with_reading(signal.cluster, reading, draft.params.domains)


def _seconds_of(draft: LiveDraft, signal: HealthSignal) -> tuple[float | None, RejectReason]:
    """The signal in seconds, or why it cannot be used. Status critical means over the SLO, whatever the value, and even
    without one; status unknown that nothing was measured, whatever the value.
    """
    live = draft.params
    domain = live.domains.get(signal.cluster)
    known = next((p for p in domain.protections if p.name == signal.name), None) if domain else None
    if domain is None or known is None or (signal.cluster, signal.name) not in live.health:
        return None, RejectReason.UNKNOWN_NAME
    if signal.status == "unknown":
        return None, RejectReason.NO_ANSWER
    value = signal.value if signal.unit in _SECONDS else None
    if signal.status == "critical":
        told = value if value is not None and math.isfinite(value) else 0.0
        return max(told, known.slo_s * domain.raw_guard), RejectReason.NOT_A_NUMBER
    return value, RejectReason.NOT_A_NUMBER if signal.value is None else RejectReason.WRONG_UNIT


def _take(draft: LiveDraft, reader: Reader, planned: tuple[int, ...], samples: Iterable[tuple[int, LagSample]]) -> None:
    """Add the samples to the book, judge the reader, and pass its time lag to the controller."""
    before, live = draft.protecting, draft.params
    book = with_samples(before.book, reader, samples, draft.now_ms, live.lag_of(reader), live.readers)
    windows = book.readers.get(reader, {})
    refused = _refused(before.book.readers.get(reader, {}), windows)
    _judge(draft, reader, planned, book)
    if book.rejections is not before.book.rejections:
        draft.protecting = draft.protecting.with_rejections(grown(before.book.rejections, book.rejections))
    if refused:
        draft.protecting = draft.protecting.with_rejections(refused)


def _refused(before: Mapping[int, Window], after: Mapping[int, Window]) -> dict[RejectReason, int]:
    """How many samples of this report the windows of the reader refused, by reason."""
    counts: dict[RejectReason, int] = {}
    for partition, window in after.items():
        earlier = before.get(partition)
        if window is earlier or not window.rejections:
            continue
        for reason, n in grown(earlier.rejections if earlier else {}, window.rejections).items():
            counts[reason] = counts.get(reason, 0) + n
    return counts


def _judge(draft: LiveDraft, reader: Reader, planned: tuple[int, ...], book: LagBook) -> None:
    """Judge the reader by `book`, which becomes what is known."""
    live, known = draft.params, draft.protecting.lags.get(reader)
    group = evaluate_reader(book, reader, planned, draft.now_ms, live.lag_of(reader))
    told, told_ms = (known.told, known.told_ms) if known else (None, 0)
    if _is_worth_telling(told, told_ms, group.verdict, draft.now_ms):
        where = {"cluster": reader.cluster, "topic": reader.topic, "group": reader.group}
        was = {"was": told.value if told else None}
        draft.notice("lag_verdict_changed", "", where | was | lag_evidence(group))
        draft.reason = f"{reader.group} on {reader.topic} is {group.verdict.value}: {group.why}"
        told, told_ms = group.verdict, draft.now_ms
    now = ReaderLag(planned, group, draft.now_ms, told, told_ms)
    name = live.protected.get(reader)
    reading = lag_reading(name, group, draft.now_ms) if name is not None else None
    draft.protecting = draft.protecting.with_lag(book, reader, now, reading, live.domains)


def _is_worth_telling(told: LagVerdict | None, told_ms: int, verdict: LagVerdict, now_ms: int) -> bool:
    """Whether the verdict changed. Not when the first window only fills up, and not each time when a verdict goes to
    and fro.
    """
    if verdict is told or (told is None and verdict is LagVerdict.UNKNOWN):
        return False
    calm = SEVERITY[LagVerdict.UNKNOWN]
    is_trouble = SEVERITY[verdict] >= calm or (told is not None and SEVERITY[told] >= calm)
    return told is None or now_ms - told_ms >= (TELL_TROUBLE_EVERY_MS if is_trouble else TELL_CALM_EVERY_MS)
