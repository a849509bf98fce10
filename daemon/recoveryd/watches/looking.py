"""How watches change by looks at their groups and by time. Until it is known what was sent while no daemon ran, none of
this ends a watch, and nothing is called or stopped for one: a command that ends it may lie there. What had been asked
before may end it.
"""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import StopReason
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.live.lag.book import Reader, with_samples
from recoveryd.live.lag.window import LagParams, Window
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.ending import call_again, fulfil, give_up
from recoveryd.watches.judge import Clause, judge_caught_up, judge_offset, with_look
from recoveryd.watches.known import Span, Watches, readers_in_play, readers_of
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilOffsets, UntilTime
from recoveryd.watches.stopping import ask_again
from recoveryd.watches.telling import make_evidence, make_progress, say_progress

JOURNAL_EVERY_MS = 10_000
MISSING_LOOKS = 3
NARROW_LOOKS = 5  # how many partitions a topic has is asked each 15 s, so one that was added just now is not known yet

_Windows = Mapping[Reader, Mapping[int, Window]]


def on_reader_sampled(draft: WatchDraft, event: ReaderSampled) -> None:
    """One look at a group on a topic: every watch that waits for it is judged."""
    watches = draft.watches
    watched = frozenset(readers_in_play(watches))
    if event.reader not in watched:
        return
    before = watches.book.readers
    params = draft.params.live.lag_of(event.reader)
    book = with_samples(watches.book, event.reader, event.samples, draft.now_ms, params, watched)
    planned = {**watches.planned, event.reader: tuple(dict.fromkeys(event.planned))}
    draft.watches = replace(watches, book=book, planned=planned)
    for watch in list(watches.live.values()) if draft.has_read else ():
        if watch.is_looking and event.reader in readers_of(watch) and not isinstance(watch.spec.until, UntilTime):
            _look(draft, watch, event, before)


def _look(draft: WatchDraft, watch: Watch, event: ReaderSampled, before: _Windows) -> None:
    pinned = _with_topic_id(draft, watch, event)
    if pinned is None:
        return
    if isinstance(watch.spec.until, UntilOffsets):
        _look_for_offsets(draft, pinned, watch.spec.until, event)
    else:
        _look_for_zero_lag(draft, pinned, event, before)


def _with_topic_id(draft: WatchDraft, watch: Watch, event: ReaderSampled) -> Watch | None:
    """The watch with the topic's id pinned; None when the topic is another one now, which ends the watch."""
    topic = event.reader.topic
    found = next((sample.topic_id for _, sample in event.samples if sample.topic_id), "")
    known = watch.topic_ids.get(topic, "")
    if found and known and found != known:
        why = f"the topic {topic} was deleted and created again: its offsets are others now"
        give_up(
            draft, watch, StopReason.TOPIC_RECREATED, Code.TOPIC_RECREATED, why, topic=topic, was=known, found=found
        )
        return None
    return replace(watch, topic_ids={**watch.topic_ids, topic: found}) if found and not known else watch


def _look_for_offsets(draft: WatchDraft, watch: Watch, until: UntilOffsets, event: ReaderSampled) -> None:
    reader, planned = event.reader, frozenset(event.planned)
    missing = sorted(p for p in until.offsets.get(reader.topic, {}) if planned and p not in planned)
    narrow = draft.watches.seen_of(watch.id).narrow
    looks = narrow.get(reader.topic, 0) + 1 if missing else 0
    if looks != narrow.get(reader.topic, 0):
        draft.see_watch(watch.id, narrow={**narrow, reader.topic: looks})
    if looks >= NARROW_LOOKS:
        why = f"the topic {reader.topic} has no partition {missing[0]}"
        code = Code.SOURCE_PARTITION_MISSING
        give_up(draft, watch, StopReason.SOURCE_UNAVAILABLE, code, why, topic=reader.topic, partitions=missing)
        return
    clauses = _offset_clauses(draft, watch, until)
    reached = {
        topic: frozenset(c.partition for c in clauses if c.topic == topic and c.holds) for topic in until.offsets
    }
    is_news = reached != {topic: watch.reached.get(topic, frozenset()) for topic in until.offsets}
    now = replace(watch, reached=reached)
    if all(c.holds for c in clauses):
        why = f"the group {watch.spec.group} committed the wanted offsets of all {len(clauses)} partitions"
        done = replace(now, progress=make_progress(clauses, 0))
        fulfil(draft, done, StopReason.ZERO_LAG, "bounded", why, make_evidence(clauses, None))
        return
    _keep(draft, now, clauses, 0, is_news=is_news)


def _offset_clauses(draft: WatchDraft, watch: Watch, until: UntilOffsets) -> list[Clause]:
    windows = draft.watches.book.readers
    return [
        judge_offset(
            reader.topic,
            partition,
            wanted,
            windows.get(reader, {}).get(partition, Window()),
            draft.now_ms,
            _params(draft, watch, reader),
            partition in watch.reached.get(reader.topic, frozenset()),
        )
        for reader in readers_of(watch)
        for partition, wanted in until.offsets.get(reader.topic, {}).items()
    ]


def _look_for_zero_lag(draft: WatchDraft, watch: Watch, event: ReaderSampled, before: _Windows) -> None:
    readers, windows = readers_of(watch), draft.watches.book.readers
    clauses: list[Clause] = []
    for reader in readers:
        now = windows.get(reader, {})
        earlier = before.get(reader, {}) if reader == event.reader else now
        planned, params = draft.watches.planned.get(reader, ()), _params(draft, watch, reader)
        clauses += judge_caught_up(reader.topic, now, earlier, planned, draft.now_ms, params)
    # A topic without partitions, or without a look yet, is unknown: "all" must not hold without it.
    holds = all(c.holds for c in clauses) and all(draft.watches.planned.get(reader) for reader in readers)
    span = draft.watches.seen_of(watch.id).span
    span = with_look(span, event.reader, holds, frozenset(readers), draft.now_ms, draft.params.live.lag)
    draft.see_watch(watch.id, span=span)
    if span is not None and _is_long_enough(draft, span):
        why = f"the group {watch.spec.group} stayed at zero lag in {span.count} looks over {_seconds(span):.0f} s"
        done = replace(watch, progress=make_progress(clauses, span.count))
        fulfil(draft, done, StopReason.ZERO_LAG, "caught_up", why, make_evidence(clauses, span))
        return
    _keep(draft, watch, clauses, span.count if span else 0, is_news=False)


def _is_long_enough(draft: WatchDraft, span: Span) -> bool:
    params = draft.params
    return span.count >= params.caught_up_evaluations and span.counted_ms - span.since_ms >= params.caught_up_span_ms


def _seconds(span: Span) -> float:
    return (span.counted_ms - span.since_ms) / 1000


def _keep(draft: WatchDraft, watch: Watch, clauses: list[Clause], evaluations: int, *, is_news: bool) -> None:
    """Remember what was seen. Journal it when a partition newly reached its offset, otherwise from time to time."""
    progress, why = make_progress(clauses, evaluations), say_progress(clauses)
    before = draft.watches.live[watch.id]
    is_late = draft.now_ms - draft.watches.seen_of(watch.id).journaled_ms >= JOURNAL_EVERY_MS
    is_other = (progress, why) != (before.progress, before.why)
    if is_news or watch.topic_ids != before.topic_ids or (is_other and is_late):
        draft.put_watch(changed(watch, draft.now_ms, progress=progress, why=why))
        draft.see_watch(watch.id, journaled_ms=draft.now_ms)


def on_offsets_of_watched(draft: WatchDraft, event: OffsetsSampled) -> None:
    """A topic that does not exist ends the watch after some looks: its name is misspelt, or it was deleted."""
    for watch in list(draft.watches.live.values()):
        topics = {(watch.spec.cluster, topic) for topic in watch.spec.topics}
        if isinstance(watch.spec.until, UntilTime):
            continue  # its time comes, whatever becomes of the group and its topics
        missing = sorted(topics.intersection(event.missing))
        looks = draft.watches.seen_of(watch.id).missing + 1 if missing else 0
        if looks != draft.watches.seen_of(watch.id).missing:
            draft.see_watch(watch.id, missing=looks)
        if looks >= MISSING_LOOKS and watch.is_looking and draft.has_read:
            why = f"the topic {missing[0][1]} does not exist"
            give_up(draft, watch, StopReason.SOURCE_UNAVAILABLE, Code.SOURCE_TOPIC_MISSING, why, topic=missing[0][1])


def keep_time(draft: WatchDraft) -> None:
    """Check deadlines, and webhooks whose outcome is awaited."""
    for watch in list(draft.watches.live.values()) if draft.has_read else ():
        until, deadline_ms = watch.spec.until, watch.spec.deadline_ms
        if not watch.is_looking:
            call_again(draft, watch)
            ask_again(draft, watch)
        elif isinstance(until, UntilTime) and draft.now_ms >= until.time_ms:
            evidence = {"wanted_ms": until.time_ms, "now_ms": draft.now_ms}
            fulfil(draft, watch, StopReason.DEADLINE, None, "the time of the command has come", evidence)
        elif deadline_ms is not None and draft.now_ms >= deadline_ms:
            why = f"the deadline came first: {watch.why}"
            evidence = {"deadline_ms": deadline_ms, "now_ms": draft.now_ms}
            give_up(draft, watch, StopReason.DEADLINE, Code.WATCH_UNFULFILLED, why, **evidence)


def _params(draft: WatchDraft, watch: Watch, reader: Reader) -> LagParams:
    return replace(draft.params.live.lag_of(reader), allowed_lag=watch.spec.tolerance_records)


def forget_looks(draft: WatchDraft) -> None:
    """Forget all looks, for a new leader: it uses none from an earlier epoch."""
    draft.watches = Watches.of(draft.watches)
