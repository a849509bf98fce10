"""What a round says to people: counters moved, and one log line for each decision that has a reason."""

import structlog

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import (
    BecameLeader,
    CommandReceived,
    ControlUnreadable,
    Event,
    SignalReceived,
    SignalRefused,
)
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.live.measures import lag_of_signal, live_written
from recoveryd.live.signals import LagSignal, SignalledPartition
from recoveryd.live.slice import LIVE
from recoveryd.live.traffic import LiveTraffic
from recoveryd.metrics.book import MetricsBook
from recoveryd.metrics.definitions import DECISION_SECONDS
from recoveryd.recovery.own_traffic import copied_by_all
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime.rounds import Round, Step

log = structlog.stdlib.get_logger("recoveryd.decisions")

TIDY_MS = 60_000


class Reporter:
    """Keeps what counting needs from round to round; everything else is computed anew."""

    def __init__(self, metrics: Metrics, book: MetricsBook) -> None:
        self._metrics = metrics
        self._live = LiveTraffic()
        self._tidied_ms = 0
        self._book = book
        metrics.add(book.first())

    def report(self, taken: Round, now_ms: int) -> None:
        """Never raises for what an event contains."""
        if taken.steps:
            answers = [answer for step in taken.steps for answer in step.decision.answers]
            before = taken.steps[0].before
            leads_anew = any(isinstance(step.item.event, BecameLeader) for step in taken.steps)
            # A counter that begins with a first loss shows no increase, so what was restored begins here too.
            self._metrics.add(self._book.beginnings(CoreState() if leads_anew else before, taken.state))
            self._metrics.add(self._book.increments(before, taken.state, answers))
        if not 0 <= now_ms - self._tidied_ms < TIDY_MS:  # a clock that is set back must not stop it
            self._tidied_ms = now_ms
            self._metrics.keep_topics(self._book.topics(taken.state, now_ms))
        for step in taken.steps:
            self._metrics.observe(DECISION_SECONDS, step.seconds)
            self._observe_live(step, now_ms)
            _log(step)

    def _observe_live(self, step: Step, now_ms: int) -> None:
        event, state = step.item.event, step.decision.state
        if isinstance(event, BecameLeader):
            self._live = LiveTraffic()  # its samples wait for a time that may never come
        elif isinstance(event, OffsetsSampled):
            ours = copied_by_all(state.of(RECOVERY).recoveries)
            self._live, written = self._live.with_sample(event, ours, now_ms)
            self._metrics.add(live_written(written))
        elif isinstance(event, ReaderSampled):
            self._show_lag(_as_signal(event), state, now_ms)

    def _show_lag(self, signal: LagSignal, state: CoreState, now_ms: int) -> None:
        """Show the lag of a group that a watch looks at, except where the core judges a group of that name already."""
        judged, who = state.of(LIVE).protecting.lags, (signal.cluster, signal.topic, signal.group)
        if any((reader.topic, reader.group) == who[1:] for reader in judged):
            self._metrics.set_live(who, ())  # series do not name the cluster, and the core's verdict has that lag
            return
        history = state.of(LIVE).samples.get(who[:2])
        self._metrics.set_live(who, lag_of_signal(signal, history, now_ms))


def _as_signal(event: ReaderSampled) -> LagSignal:
    """All planned partitions, even without a sample: a missing one must make the lag unknown, not smaller."""
    samples = dict(event.samples)
    rows = []
    for partition in event.planned:
        sample = samples.get(partition)
        end_ms = sample.end_at_ms if sample is not None else 0
        rows.append(SignalledPartition(partition, sample and sample.position, sample and sample.end, end_ms))
    return LagSignal(event.reader.cluster, event.reader.group, event.reader.topic, tuple(rows))


def _log(step: Step) -> None:
    event, decision = step.item.event, step.decision
    context = _context(event, decision)
    if step.error is not None:
        log.error("a rule broke on an event, which was put aside", exc_info=step.error, **context)
    if decision.reason:
        level = log.info if decision.needs_journal else log.debug
        level(decision.reason, **context)


def _context(event: Event, decision: Decision) -> dict[str, object]:
    """The fields of a log line: event, recovery, attempt and command, as far as there are any."""
    context: dict[str, object] = {"event_type": type(event).__name__}
    recovery = getattr(event, "recovery", None)
    if isinstance(event, CommandReceived):
        about = event.command if isinstance(event.command, RefusedCommand) else event.command.meta
        context["command_id"] = about.id
        recovery = about.subject or None
    if isinstance(event, CommandReceived | ControlUnreadable | SignalReceived | SignalRefused):
        context["control_offset"] = event.offset
    if recovery is None and len(decision.changed) == 1:
        recovery = decision.changed[0].id
    if recovery is not None:
        context["recovery_id"] = recovery
        known = decision.state.of(RECOVERY).recoveries.get(recovery)
        if known is not None:
            context.setdefault("command_id", known.command.id)
        attempt = getattr(event, "attempt", 0) or (known.attempt.number if known is not None else 0)
        if attempt:
            context["attempt"] = attempt
    return context
