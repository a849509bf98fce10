"""What is known of a log start that moves in rounds, against a log that is kept by size as a broker keeps it."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd.live.events import TopicSample
from recoveryd.recovery.log_starts import LogStart, LogStarts

SAMPLE_S = 5


def sample(at_s: float, log_start: int) -> TopicSample:
    return TopicSample("main", "flights", "id", {0: log_start}, {0: 0}, {0: 0}, round(at_s * 1000))


class KeptBySize:
    """`per_s` records arrive; it holds at least `kept` of them, and each `check_s` lets go whole segments beyond. Where
    the old ones are half as large as the new ones, twice as many of them go: that is a log with twice as many that
    arrive.
    """

    def __init__(self, per_s: int, segment: int, check_s: int, kept: int) -> None:
        self.per_s, self.segment, self.check_s, self.kept = per_s, segment, check_s, kept

    def log_start(self, at_s: float) -> int:
        checked_s = at_s // self.check_s * self.check_s
        return max(0, int(self.per_s * checked_s) - self.kept) // self.segment * self.segment

    def deleted_s(self, position: int) -> float:
        """When the record at this position goes."""
        behind = (position // self.segment + 1) * self.segment
        return -(-(behind + self.kept) // self.per_s // self.check_s) * self.check_s

    def looks(self, seconds: int) -> Iterator[tuple[int, LogStart]]:
        known = LogStarts()
        for at_s in range(0, seconds, SAMPLE_S):
            known = known.with_sample(sample(at_s, self.log_start(at_s)), [0])
            yield at_s, known.known[0]


def slack_s(log: KeptBySize, start: LogStart, position: int, at_s: int) -> float:
    per_s = max(log.per_s, start.per_s(at_s * 1000))
    return (position - start.offset - start.ahead(per_s, at_s * 1000)) / per_s


@given(
    per_s=st.integers(10, 5_000),
    every_s=st.integers(20, 1_500),
    check_s=st.sampled_from([5, 30, 60, 300]),
    segments=st.integers(1, 20),
)
def test_no_pace_is_told_beyond_the_true_one_by_more_than_a_segment_and_no_slack_much_longer_than_the_true_one(
    per_s: int, every_s: int, check_s: int, segments: int
) -> None:
    segment = per_s * every_s
    log = KeptBySize(per_s, segment, check_s, segments * segment)
    looked = 0
    for at_s, start in log.looks((segments + 14) * max(every_s, check_s)):
        if not start.rounds:
            continue
        looked += 1
        seen_s = (start.rounds[-1].ended_ms - start.rounds[0].ended_ms) / 1000
        assert start.per_s(at_s * 1000) * seen_s <= per_s * (seen_s + SAMPLE_S) + segment
        beyond = 1 + (every_s + SAMPLE_S) / seen_s if start.per_s(at_s * 1000) else 1
        for part in (0.05, 0.5, 0.95):
            position = start.offset + 1 + int(part * log.kept)
            true_s, told_s = log.deleted_s(position) - at_s, slack_s(log, start, position, at_s)
            assert told_s <= true_s + check_s + 2 * SAMPLE_S
            assert told_s >= true_s / beyond - every_s - check_s - 2 * SAMPLE_S
    assert looked


@pytest.mark.parametrize("segments", [1, 3, 100])
def test_from_the_fourth_round_on_the_pace_is_about_true_just_after_a_round_and_just_before_the_next(
    segments: int,
) -> None:
    log = KeptBySize(2_000, 600_000 // segments, 300, 6_000_000)
    told: dict[int, list[float]] = {}
    for at_s, start in log.looks(3_300 + 14 * 300):
        told.setdefault(len(start.rounds), []).append(start.per_s(at_s * 1000) / log.per_s)
    assert told.keys() == set(range(11))
    assert max(told[1] + told[2]) == 0, "two rounds tell of no pace"
    least = {rounds: round(min(each), 2) for rounds, each in told.items() if rounds > 2}
    assert least == {3: 0.83, 4: 0.92, 5: 0.95, 6: 0.97, 7: 0.98, 8: 0.98, 9: 0.99, 10: 0.99}
    assert max(share for each in told.values() for share in each) <= 1


@pytest.mark.parametrize("check_s", [5, 300])
@pytest.mark.parametrize("every_s", [60, 200, 1_000])
def test_over_deletions_the_slack_of_a_position_that_rests_goes_down_evenly(every_s: int, check_s: int) -> None:
    """But for what a check of the broker's comes too late, which nobody knows."""
    log = KeptBySize(1_000, every_s * 1_000, check_s, 20 * every_s * 1_000)
    position, told = 40 * every_s * 1_000, []
    for at_s, start in log.looks(40 * every_s):
        if start.rounds:
            told.append(slack_s(log, start, position, at_s))
    falls = [before - after for before, after in pairwise(told)]
    assert len(falls) > 100
    assert max(falls) <= SAMPLE_S + (check_s if check_s > SAMPLE_S else 0) + SAMPLE_S
    assert sum(falls) == pytest.approx(len(falls) * SAMPLE_S, rel=0.1, abs=every_s + check_s)


def steps(*moves: tuple[int, int]) -> LogStart:
    found = LogStart(0)
    for at_s, offset in moves:
        found = found.moved(offset, at_s * 1000)
    return found


def test_one_step_tells_of_no_rate_however_few_samples_are_around_it() -> None:
    assert steps((95, 1_000_000)).per_s(95_000) == 0
    assert steps((95, 400_000), (100, 1_000_000)).per_s(100_000) == 0, "one round that was seen as two"


def test_a_pace_wears_off_only_once_the_next_round_is_later_than_usual() -> None:
    rounds = steps(*((300 * number, 600_000 * number) for number in range(1, 6)))
    paces = [rounds.per_s((1_500 + late_s) * 1000) for late_s in (0, 299, 300, 600, 1_500, 86_400)]
    assert paces[:3] == [pytest.approx(1_900)] * 3
    assert paces[3:] == [pytest.approx(1_520), pytest.approx(950), pytest.approx(26, abs=1)]


def test_a_log_start_that_moves_on_without_anything_that_arrives_is_seen_within_minutes() -> None:
    moving = steps(*((at_s, 55 * at_s) for at_s in range(5, 200, 5)))
    assert moving.per_s(195_000) == pytest.approx(55, rel=0.05)
    assert moving.per_s(3_600_000) < 5, "it wears off when it has come to rest"


def test_nor_does_a_log_start_that_rests_go_on_by_more_than_a_step() -> None:
    """As when somebody has let the source keep more, so that nothing is deleted for days."""
    rests = steps((300, 1_000), (600, 3_000))
    assert rests.ahead(10, 650_000) == 500
    assert rests.ahead(10, 86_400_000) == 2_000
    assert LogStart(5_000).ahead(10, 86_400_000) == 0


def test_after_a_clock_that_was_set_back_and_for_a_log_that_begins_anew_all_is_learned_again() -> None:
    known = steps((100, 10), (200, 20), (300, 30))
    assert known.moved(40, 250_000) == LogStart(40)
    assert known.moved(5, 400_000) == LogStart(5)


def test_what_is_kept_of_a_partition_is_bounded_and_nothing_new_changes_nothing() -> None:
    known = LogStarts()
    for round_ in range(1, 200):
        known = known.with_sample(sample(round_ * 300, round_ * 1_000), [0, 7])
    assert (len(known.known[0].rounds), set(known.known)) == (10, {0})
    assert known.with_sample(sample(70_000, 199_000), [0]) is known
