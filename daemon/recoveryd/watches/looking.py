"""How watches change by looks at their groups and by time. Until it is known what was sent while no daemon ran, none of
this ends a watch, and nothing is called or stopped for one: a command that ends it may lie there. What had been asked
before may end it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import StopReason
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.live.lag.book import Reader, with_samples
from recoveryd.watches.clauses import Clause, Judged, sum_of, sum_of_all
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.ending import call_again, fulfil, give_up
from recoveryd.watches.judge import with_look
from recoveryd.watches.judging import Windows, clauses_of, judge_readers
from recoveryd.watches.known import Span, Watches, readers_of
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilOffsets, UntilTime
from recoveryd.watches.stopping import ask_again
from recoveryd.watches.telling import make_evidence, make_progress, say_progress

JOURNAL_EVERY_MS = 10_000
MISSING_LOOKS = 3
NARROW_LOOKS = 5  # how many partitions a topic has is asked each 15 s, so one that was added just now is not known yet


def on_reader_sampled(draft: WatchDraft, event: ReaderSampled) -> None:
    """One look at a group on a topic: every watch that waits for it is judged."""
    watches = draft.watches
    waiting = watches.waiting.get(event.reader)
    if waiting is None:
        return
    earlier = watches.book.readers.get(event.reader, {})
    params = draft.params.live.lag_of(event.reader)
    book = with_samples(watches.book, event.reader, event.samples, draft.now_ms, params, watches.waiting)
    planned = {**watches.planned, event.reader: tuple(dict.fromkeys(event.planned))}
    draft.watches = replace(watches, book=book, planned=planned)
    for watch_id in waiting if draft.has_read else ():
        _look(draft, watches.live[watch_id], event, earlier)


def _look(draft: WatchDraft, watch: Watch, event: ReaderSampled, earlier: Windows) -> None:
    pinned = _with_topic_id(draft, watch, event)
    if pinned is None:
        return
    if isinstance(watch.spec.until, UntilOffsets):
        _look_for_offsets(draft, pinned, watch.spec.until, event, earlier)
    else:
        _look_for_zero_lag(draft, pinned, event, earlier)


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


def _look_for_offsets(
    draft: WatchDraft, watch: Watch, until: UntilOffsets, event: ReaderSampled, earlier: Windows
) -> None:
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
    judged = judge_readers(draft, watch, reader, earlier)
    topics = {each.topic: found for each, found in judged.items()}
    reached = {topic: topics[topic].reached if topic in topics else frozenset() for topic in until.offsets}
    is_news = reached != {topic: watch.reached.get(topic, frozenset()) for topic in until.offsets}
    now = replace(watch, reached=reached)
    if all(found.holds for found in judged.values()):
        clauses = _all_clauses(draft, watch, reader, earlier)
        why = f"the group {watch.spec.group} committed the wanted offsets of all {len(clauses)} partitions"
        _fulfil(draft, now, "bounded", why, clauses, None)
        return
    _keep(draft, now, judged, 0, is_news=is_news)


def _look_for_zero_lag(draft: WatchDraft, watch: Watch, event: ReaderSampled, earlier: Windows) -> None:
    judged, readers = judge_readers(draft, watch, event.reader, earlier), frozenset(readers_of(watch))
    # A topic without partitions, or without a look yet, is unknown: "all" must not hold without it.
    holds = all(found.holds for found in judged.values()) and all(draft.watches.planned.get(r) for r in readers)
    span = draft.watches.seen_of(watch.id).span
    span = with_look(span, event.reader, holds, readers, draft.now_ms, draft.params.live.lag)
    draft.see_watch(watch.id, span=span)
    if span is not None and _is_long_enough(draft, span):
        why = f"the group {watch.spec.group} stayed at zero lag in {span.count} looks over {_seconds(span):.0f} s"
        _fulfil(draft, watch, "caught_up", why, _all_clauses(draft, watch, event.reader, earlier), span)
        return
    _keep(draft, watch, judged, span.count if span else 0, is_news=False)


def _all_clauses(draft: WatchDraft, watch: Watch, reader: Reader, earlier: Windows) -> list[Clause]:
    """For the evidence: each partition with its numbers."""
    return [c for r in readers_of(watch) for c in clauses_of(draft, watch, r, earlier if r == reader else None)]


def _fulfil(draft: WatchDraft, watch: Watch, mode: str, why: str, clauses: Sequence[Clause], span: Span | None) -> None:
    draft.see_watch(watch.id, judged={})
    done = replace(watch, progress=make_progress(sum_of(clauses), span.count if span else 0))
    fulfil(draft, done, StopReason.ZERO_LAG, mode, why, make_evidence(clauses, span))


def _is_long_enough(draft: WatchDraft, span: Span) -> bool:
    params = draft.params
    return span.count >= params.caught_up_evaluations and span.counted_ms - span.since_ms >= params.caught_up_span_ms


def _seconds(span: Span) -> float:
    return (span.counted_ms - span.since_ms) / 1000


def _keep(draft: WatchDraft, watch: Watch, judged: Mapping[Reader, Judged], evaluations: int, *, is_news: bool) -> None:
    """Remember what was seen. Journal it when a partition newly reached its offset, otherwise from time to time."""
    draft.see_watch(watch.id, judged=judged)
    before = draft.watches.live[watch.id]
    is_news = is_news or watch.topic_ids != before.topic_ids
    if not is_news and draft.now_ms - draft.watches.seen_of(watch.id).journaled_ms < JOURNAL_EVERY_MS:
        return
    found = sum_of_all([each.found for each in judged.values()])
    progress, why = make_progress(found, evaluations), say_progress(found)
    if is_news or (progress, why) != (before.progress, before.why):
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


def forget_looks(draft: WatchDraft) -> None:
    """Forget all looks, for a new leader: it uses none from an earlier epoch."""
    draft.watches = Watches.of(draft.watches)
