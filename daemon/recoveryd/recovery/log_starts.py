"""How the log start of a source that is kept by size moves: by whole segments, in rounds of the broker's, each few
minutes.

Between two rounds nothing seems to happen, and in one whole segments go at once. A rate over the few samples around a
round is many times the true one, and a distance to the log start is a segment too large just before one. So rounds are
noted. From the newest on, the log start is taken to go on evenly, with the records that push it, until the next round
shows where it really is. It may also go on faster than records arrive, as where new ones are larger than old ones, or
where somebody deletes: over a few rounds that is measured.

In memory only: a new daemon begins with the next round.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from recoveryd.live.events import TopicSample

ROUNDS_KEPT = 10
_ROUNDS_LEAST = 3
_APART_MS = 30_000  # what goes within that is one round, which samples may show as several steps


class DeletionRound(NamedTuple):
    """Deletions that belong together: when the first and the last were seen, and the log start after them."""

    began_ms: int
    ended_ms: int
    offset: int


class LogStart(NamedTuple):
    """The log start of one partition. `step`: by how much it moved last, 0 = it did not since it was first seen;
    `before`: the same of the time before that.
    """

    offset: int
    step: int = 0
    before: int = 0
    rounds: tuple[DeletionRound, ...] = ()

    def per_s(self, now_ms: int) -> float:
        """Offsets/s at which it moves, over the last rounds; 0 with too few of them. It wears off once the next round
        is later than usual. What arrived lies up to a segment before or behind where a round leads to, and a round is
        one segment or many: so a part of the smallest one is left out, and what is told is never ahead of what is true
        by more than a segment. What the largest round has beyond the second is left out too: what somebody deleted once
        is no pace.
        """
        if len(self.rounds) < _ROUNDS_LEAST:
            return 0.0
        first, newest = self.rounds[0], self.rounds[-1]
        steps = sorted(after.offset - before.offset for before, after in pairwise(self.rounds))
        beyond = steps[-1] - steps[-2]
        usual_ms = (newest.ended_ms - first.ended_ms) / (len(self.rounds) - 1)
        passed_ms = max(newest.ended_ms, now_ms - usual_ms) - first.ended_ms
        went = newest.offset - first.offset - beyond - steps[0] / len(self.rounds)
        return max(0.0, went) * 1000 / max(1.0, passed_ms)

    def ahead(self, per_s: float, now_ms: int) -> float:
        """How far it would have gone on by now at `per_s`. No further than another step would lead: none was seen, as
        where somebody let the source keep more.
        """
        if not self.rounds:
            return 0.0
        passed_s = max(0, now_ms - self.rounds[-1].ended_ms) / 1000
        return min(float(max(self.step, self.before)), per_s * passed_s)

    def moved(self, offset: int, at_ms: int) -> "LogStart":
        """As a sample of that time shows it."""
        newest = self.rounds[-1] if self.rounds else None
        if offset < self.offset or (newest is not None and at_ms < newest.ended_ms):
            return LogStart(offset)  # another log, or a clock that was set back
        if newest is not None and at_ms - newest.began_ms < _APART_MS:
            rounds = (*self.rounds[:-1], newest._replace(ended_ms=at_ms, offset=offset))
        else:
            rounds = (*self.rounds, DeletionRound(at_ms, at_ms, offset))[-ROUNDS_KEPT:]
        return LogStart(offset, offset - self.offset, self.step, rounds)


@dataclass(frozen=True, slots=True)
class LogStarts:
    """By partition, as of the newest sample."""

    known: Mapping[int, LogStart] = field(default_factory=dict)

    def of(self, partition: int, sample: TopicSample, planned: int) -> LogStart:
        """As the sample shows it, which may not be noted yet; `planned` where it does not tell."""
        known, offset = self.known.get(partition), sample.log_start.get(partition)
        if offset is None:
            return known or LogStart(planned)
        if known is None:
            return LogStart(offset)
        return known if offset == known.offset else known.moved(offset, sample.sampled_at_ms)

    def with_sample(self, sample: TopicSample, partitions: Iterable[int]) -> "LogStarts":
        """With one more sample; the same value where nothing has moved."""
        new: dict[int, LogStart] = {}
        for partition in partitions:
            found = self.of(partition, sample, 0) if partition in sample.log_start else None
            if found is not None and found is not self.known.get(partition):
                new[partition] = found
        return LogStarts({**self.known, **new}) if new else self
