"""The readers of a watch, judged at a look at one of them.

Each topic has its look in every period: whoever judged all of them with each would judge each as often as there are
topics. So what was found of a reader is kept until there is another look at it, or a moment has come at which a rule
may find something else.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.evaluate import FOR_EVER_MS, same_until_ms
from recoveryd.live.lag.window import Window
from recoveryd.watches.clauses import Clause, Judged, sum_of
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.judge import judge_caught_up, judge_offsets
from recoveryd.watches.known import readers_of
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilOffsets

Windows = Mapping[int, Window]
_NOT_SEEN: Windows = MappingProxyType({})


def judge_readers(draft: WatchDraft, watch: Watch, reader: Reader, earlier: Windows) -> dict[Reader, Judged]:
    """What is found of each reader of the watch now, at a look at `reader`. `earlier`: its windows before that."""
    known, judged = draft.watches.seen_of(watch.id).judged, dict[Reader, Judged]()
    for each in readers_of(watch):
        kept = known.get(each)
        is_same = kept is not None and kept.windows is _windows_of(draft, each)
        if kept is None or not is_same or not kept.at_ms <= draft.now_ms < kept.until_ms:
            kept = _judge(draft, watch, each, earlier if each == reader else None)
        judged[each] = kept
    return judged


def clauses_of(draft: WatchDraft, watch: Watch, reader: Reader, earlier: Windows | None = None) -> tuple[Clause, ...]:
    """A clause for each partition of one reader. `earlier`: as above, None = there is no new look at it."""
    windows, until = _windows_of(draft, reader), watch.spec.until
    params = replace(draft.params.live.lag_of(reader), allowed_lag=watch.spec.tolerance_records)
    if isinstance(until, UntilOffsets):
        wanted, reached = until.offsets.get(reader.topic, {}), watch.reached.get(reader.topic, frozenset())
        return judge_offsets(reader.topic, windows, wanted, reached, draft.now_ms, params)
    planned, earlier = draft.watches.planned.get(reader, ()), windows if earlier is None else earlier
    return judge_caught_up(reader.topic, windows, earlier, planned, draft.now_ms, params)


def _judge(draft: WatchDraft, watch: Watch, reader: Reader, earlier: Windows | None) -> Judged:
    windows, now_ms = _windows_of(draft, reader), draft.now_ms
    clauses, params = clauses_of(draft, watch, reader, earlier), draft.params.live.lag_of(reader)
    moments = (same_until_ms(windows[c.partition], now_ms, params) for c in clauses if c.partition in windows)
    until_ms = now_ms if any(c.passes for c in clauses) else min(moments, default=FOR_EVER_MS)
    return Judged(windows, now_ms, until_ms, frozenset(c.partition for c in clauses if c.holds), sum_of(clauses))


def _windows_of(draft: WatchDraft, reader: Reader) -> Windows:
    return draft.watches.book.readers.get(reader, _NOT_SEEN)
