"""What is known of one partition of one reader: a short ring of positions and a table of log ends, both bounded.

A sample that cannot be true is refused and counted; one that shows that the log was replaced or cut leaves a `Mark`.
Nothing is clamped to zero: a lag that is not known is None. Verdicts are made in `evaluate`. The values are named
tuples, because there are ten thousand of them, and the tables are arrays of whole numbers: copying a tuple touches each
number in it, which by then lie all over the memory. No array changes once it is in a window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from recoveryd.live.freshness import RejectReason, counted
from recoveryd.live.lag.ends import NO_NUMBERS, Numbers, ended_ms

OFFSET_MOST = 2**63 - 1
_RESTART_AFTER = 3  # so many decreased ends in a row mean that the log was truncated


@dataclass(frozen=True, slots=True)
class LagParams:
    """Times in ms. `slots`: length of the ring of positions. `points`: length of the table of log ends. A verdict needs
    `fill_least` of the ring. `commit_interval_ms`: of a reader that was not seen to commit more rarely.

    `is_read_committed`: the reader stops at the last stable offset, where `marker_records` transaction markers may stay
    unread for ever. `advance_most_per_s`: the reader reads no faster, so a larger step of the position was a skip; None
    = not known. `wait_most_ms`: of a reader with an SLO, how long a position that stands may count as waiting for a
    commit where the lag is told to who slows down for it; None = no bound of its own. `markers`: so many records may
    stay unread for ever; `tolerated`: so many may in any case. Of the `recent` newest points none is left out, those of
    the ring; older ones lie `spacing_ms` apart where ends come more often, or where the table has to reach back to an
    SLO: with every second point left out it does.
    """

    period_ms: int = 5_000
    commit_interval_ms: int = 5_000
    slots: int = 10
    points: int = 60
    fill_least: float = 0.5
    allowed_lag: int = 0
    marker_records: int = 1
    is_read_committed: bool = False
    min_distance_ms: int = 1_000
    blocked_after_ms: int = 600_000
    advance_most_per_s: float | None = None
    future_ms: int = 2_000
    too_old_ms: int = 300_000
    slo_ms: int | None = None
    wait_most_ms: int | None = field(init=False, compare=False)
    spacing_ms: int = field(init=False, compare=False)
    recent: int = field(init=False, compare=False)
    markers: int = field(init=False, compare=False)
    tolerated: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """What follows from the others is worked out once: each sample of each partition asks for it."""
        recent = self.slots + 2
        # who does not move has to be seen before its SLO is over, one look later at most
        wait_most_ms = None if self.slo_ms is None else max(0, self.slo_ms - self.period_ms)
        reach_ms = 0 if self.slo_ms is None else self.slo_ms + 2 * self.period_ms
        spacing_ms = max(3 * self.period_ms // 2, 2 * reach_ms // (self.points - recent - 1))
        markers = self.marker_records if self.is_read_committed else 0
        object.__setattr__(self, "wait_most_ms", wait_most_ms)
        object.__setattr__(self, "spacing_ms", spacing_ms)
        object.__setattr__(self, "recent", recent)
        object.__setattr__(self, "markers", markers)
        object.__setattr__(self, "tolerated", max(self.allowed_lag, markers))


class LagSample(NamedTuple):
    """One look at a partition. The position must be asked for *before* the end; otherwise the lag could come out too
    small, and is taken as not known.

    `position` None or -1 = no commit. `end` is the high watermark. `is_active` False = the group has no member, None =
    not known. `is_signal`: another program told it, which knows of positions and ends only.
    """

    position: int | None
    position_at_ms: int
    end: int | None
    end_at_ms: int
    log_start: int | None = None
    last_stable: int | None = None
    topic_id: str = ""
    is_active: bool | None = None
    is_signal: bool = False


class Mark(NamedTuple):
    """Why the log is another one than before. With `is_restarted` the window began anew, and the mark goes when it is
    full enough for a verdict.
    """

    reason: str
    is_restarted: bool


class Window(NamedTuple):
    """`times_ms`, `positions` and `lags` are the ring, oldest first. `ends` and `ends_ms` are the table of log ends; of
    equal ends in a row only the first and last are kept.

    `seen_ms`: the newest look at the position, also while the group is empty and commits nothing. The single values are
    those of the newest sample, and what a signal does not tell those of our own look at `looked_ms`. `moved_ms`: the
    newest look at which the position had moved, or nothing was left to read; `waits_ms`: how long the last three moves
    took since such a look. `stuck_ms`: the age of the record at the last stable offset when this moved on, the last
    three times.
    """

    times_ms: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    lags: tuple[int | None, ...] = ()
    ends: Numbers = NO_NUMBERS
    ends_ms: Numbers = NO_NUMBERS
    seen_ms: int = -1
    position: int | None = None
    log_start: int = 0
    last_stable: int | None = None
    stuck_since_ms: int | None = None  # since when the last stable offset has stayed below the end
    topic_id: str = ""
    is_active: bool | None = None
    skipped_ms: int | None = None
    mark: Mark | None = None
    decreases: int = 0
    rejections: Mapping[RejectReason, int] = MappingProxyType({})
    moved_ms: int = -1
    waits_ms: tuple[int, ...] = ()
    stuck_ms: tuple[int, ...] = ()
    looked_ms: int = -1


def with_sample(window: Window, sample: LagSample, now_ms: int, params: LagParams) -> Window:
    """The window with the sample added; or the same window with the refusal counted."""
    refused = _refuse(window, sample, now_ms, params)
    is_next = not sample.is_signal and window.looked_ms < sample.position_at_ms <= window.seen_ms
    is_late = is_next and refused is RejectReason.OUT_OF_ORDER
    if refused is not None and not is_late:
        return window._replace(rejections=counted(window.rejections, (refused,)))
    if window.topic_id and sample.topic_id and sample.topic_id != window.topic_id:
        fresh = Window(mark=Mark("the topic was created anew", True), rejections=window.rejections)
        return _taken(fresh, sample, params)
    if is_late:
        return _with_late_look(window, sample, params)
    if sample.end is not None and window.ends and sample.end < window.ends[-1]:
        return _with_decrease(window, sample, params)
    return _taken(window, sample, params)


def _refuse(window: Window, sample: LagSample, now_ms: int, params: LagParams) -> RejectReason | None:
    """Why the sample may not be used."""
    for offset in (sample.end, sample.log_start, sample.last_stable):
        if offset is not None and not 0 <= offset <= OFFSET_MOST:
            return RejectReason.NEGATIVE if offset < 0 else RejectReason.NOT_A_NUMBER
    position, position_at_ms, end_at_ms = sample.position, sample.position_at_ms, sample.end_at_ms
    if position is not None and not -1 <= position <= OFFSET_MOST:
        return RejectReason.NEGATIVE if position < 0 else RejectReason.NOT_A_NUMBER
    latest_ms = now_ms + params.future_ms
    if not (position_at_ms <= latest_ms and end_at_ms <= latest_ms):
        return RejectReason.FUTURE
    oldest_ms = now_ms - params.too_old_ms
    if position_at_ms < oldest_ms or end_at_ms < oldest_ms:
        return RejectReason.TOO_OLD
    ends_ms = window.ends_ms
    if position_at_ms <= window.seen_ms or (ends_ms and end_at_ms < ends_ms[-1]):
        return RejectReason.OUT_OF_ORDER
    return None


def _with_decrease(window: Window, sample: LagSample, params: LagParams) -> Window:
    """A log end moved back. It is not believed at first, but the mark keeps the old end from being used; after three in
    a row the window begins anew.
    """
    rejections = counted(window.rejections, (RejectReason.END_DECREASED,))
    mark = Mark("the log end moved back", window.decreases + 1 >= _RESTART_AFTER)
    if mark.is_restarted:
        return _taken(Window(mark=mark, rejections=rejections), sample, params)
    return window._replace(mark=mark, decreases=window.decreases + 1, rejections=rejections)


def _with_late_look(window: Window, look: LagSample, params: LagParams) -> Window:
    """Signals that come oftener than our looks are newer than these, but what they do not tell is from the look."""
    ends, ends_ms = window.ends, window.ends_ms
    if look.end is not None and (not ends or (look.end_at_ms > ends_ms[-1] and look.end >= ends[-1])):
        ends, ends_ms = _with_end(ends, ends_ms, look, params)
    stuck_since_ms = _stuck_since(window, look)
    last_stable = _held_at(look.last_stable, stuck_since_ms, window.position)
    return window._replace(
        ends=ends,
        ends_ms=ends_ms,
        log_start=window.log_start if look.log_start is None else look.log_start,
        last_stable=last_stable,
        stuck_since_ms=None if last_stable is None else stuck_since_ms,
        stuck_ms=_stuck_times(window, look),
        topic_id=look.topic_id or window.topic_id,
        is_active=look.is_active,
        looked_ms=look.position_at_ms,
    )


def _with_kept(window: Window, signal: LagSample, params: LagParams) -> LagSample:
    """The signal with what our own look told, while that is fresh: the members, and a last stable offset that an open
    transaction held.
    """
    if signal.position_at_ms - window.looked_ms > 2 * params.period_ms:
        return signal
    position, position_at_ms, end, end_at_ms, log_start, _, topic_id, _, is_signal = signal
    last_stable = _held_at(window.last_stable, window.stuck_since_ms, position)
    return LagSample(
        position, position_at_ms, end, end_at_ms, log_start, last_stable, topic_id, window.is_active, is_signal
    )


def _held_at(last_stable: int | None, stuck_since_ms: int | None, position: int | None) -> int | None:
    """The last stable offset as far as an open transaction holds it. Where none does, or the position is past it, it
    has moved on since, and what is there up to the end counts.
    """
    is_held = stuck_since_ms is not None and last_stable is not None and (position or 0) <= last_stable
    return last_stable if is_held else None


def _taken(window: Window, sample: LagSample, params: LagParams) -> Window:
    if sample.is_signal:
        sample = _with_kept(window, sample, params)
    ends, ends_ms = _with_end(window.ends, window.ends_ms, sample, params)
    log_start = window.log_start if sample.log_start is None else sample.log_start
    times, positions, lags, skipped_ms = window.times_ms, window.positions, window.lags, window.skipped_ms
    position = None if sample.position == -1 else sample.position
    waits_ms = window.waits_ms
    # Where nobody is there to commit, that is no wait.
    moved_ms = sample.position_at_ms if sample.is_active is False else window.moved_ms
    if position is not None and sample.is_active is not False:
        lag = _lag(sample, position, log_start, params)
        is_read = lag is not None and lag <= params.markers
        moved_ms, waits_ms = _moves(window, position, sample.position_at_ms, is_read=is_read)
        if times and sample.position_at_ms - times[-1] < params.min_distance_ms:
            # Less than `min_distance_ms` after the last one: replace its values but keep its time, so that a burst of
            # commits does not shorten the window.
            positions, lags = (*positions[:-1], position), (*lags[:-1], lag)
        else:
            if params.advance_most_per_s is not None and _is_skip(window, position, sample.position_at_ms, params):
                skipped_ms = sample.position_at_ms
            first = max(0, len(times) + 1 - params.slots)
            times = (*times[first:], sample.position_at_ms)
            positions = (*positions[first:], position)
            lags = (*lags[first:], lag)
    mark = window.mark
    if mark is not None and (not mark.is_restarted or len(times) >= params.fill_least * params.slots):
        mark = None
    return Window(
        times,
        positions,
        lags,
        ends,
        ends_ms,
        sample.position_at_ms,
        position,
        log_start,
        sample.last_stable,
        _stuck_since(window, sample),
        sample.topic_id or window.topic_id,
        sample.is_active,
        skipped_ms,
        mark,
        0,
        window.rejections,
        moved_ms,
        waits_ms,
        _stuck_times(window, sample),
        window.looked_ms if sample.is_signal else sample.position_at_ms,
    )


def _moves(window: Window, position: int, at_ms: int, *, is_read: bool) -> tuple[int, tuple[int, ...]]:
    """When it moved last, and how long the last moves took. Who has read everything has nothing to commit, and who was
    set back begins anew.
    """
    before = window.positions[-1] if window.positions else None
    if before is None or position < before:
        return at_ms, ()
    if position > before:
        return at_ms, (*window.waits_ms[-2:], at_ms - window.moved_ms)
    return (at_ms if is_read else window.moved_ms), window.waits_ms


def _with_end(ends: Numbers, ends_ms: Numbers, sample: LagSample, params: LagParams) -> tuple[Numbers, Numbers]:
    """The table with one more point; of equal ends in a row only the first and last are kept. One no longer recent is
    left out if its neighbours lie near together.
    """
    end, at_ms = sample.end, sample.end_at_ms
    if end is None or (ends_ms and at_ms == ends_ms[-1]):
        return ends, ends_ms
    if len(ends) >= 2 and ends[-1] == end == ends[-2]:
        times_ms = ends_ms[:-1]
        times_ms.append(at_ms)
        return ends, times_ms
    more, times_ms = ends[:], ends_ms[:]
    more.append(end)
    times_ms.append(at_ms)
    at = len(more) - 1 - params.recent
    if at > 0 and times_ms[at + 1] - times_ms[at - 1] <= params.spacing_ms:
        del more[at], times_ms[at]
    elif len(more) > params.points:
        del more[0], times_ms[0]
    return more, times_ms


def _lag(sample: LagSample, position: int, log_start: int, params: LagParams) -> int | None:
    """Records that the reader can still read; None where the end is not known, was asked for before the position, or
    lies before it.
    """
    reach = sample.last_stable if params.is_read_committed and sample.last_stable is not None else sample.end
    if reach is None or sample.end_at_ms < sample.position_at_ms or position > reach:
        return None
    return max(0, reach - max(position, log_start))


def _is_skip(window: Window, position: int, at_ms: int, params: LagParams) -> bool:
    if params.advance_most_per_s is None or not window.times_ms:
        return False
    elapsed_s = (at_ms - window.times_ms[-1]) / 1000
    return position - window.positions[-1] > params.advance_most_per_s * elapsed_s


def _stuck_since(window: Window, sample: LagSample) -> int | None:
    """Since when an open transaction has kept the last stable offset where it is."""
    if sample.is_signal and sample.last_stable is not None:
        return window.stuck_since_ms
    if sample.last_stable is None or sample.end is None or sample.last_stable >= sample.end:
        return None
    if window.stuck_since_ms is not None and window.last_stable == sample.last_stable:
        return window.stuck_since_ms
    return sample.end_at_ms


def _stuck_times(window: Window, sample: LagSample) -> tuple[int, ...]:
    """With one more, where the last stable offset has moved on. Where transactions overlap it moves oftener than each
    is long, so it is the age of the record there that tells how long they are. It moved between two looks: half of that
    time counts. What is older than the table was open for at least as long as it was seen to be.
    """
    since_ms, last_stable = window.stuck_since_ms, window.last_stable
    if since_ms is None or last_stable is None or sample.last_stable in {None, last_stable}:
        return window.stuck_ms
    least_ms = sample.end_at_ms - since_ms
    begun_ms = ended_ms(window.ends, window.ends_ms, last_stable, is_begin=True)
    moved_ms = (max(since_ms, window.looked_ms) + sample.end_at_ms) / 2
    open_ms = least_ms if begun_ms is None else max(least_ms, round(moved_ms - begun_ms))
    return (*window.stuck_ms[-2:], open_ms)
