"""A copy has caught up when it has what is older than one grace, however much arrived at once before that."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.events import TopicSample
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.observed import Candidate, Heard, Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.stops.caught_up import CaughtUpClause, evaluate_caught_up, is_caught_up, judge_partitions
from recoveryd.settings import load
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition
from tests.builders.core import NOW_MS
from tests.builders.records import make_plan, make_recovery

PARAMS = Params()
GRACE_S = PARAMS.head_grace_ms // 1000
PERIOD_S = PARAMS.sample_period_ms // 1000
BATCH = 1_000_000
RECOVERY = make_recovery(state=State.RUNNING, plan=make_plan((0, 0, None)))

At = Callable[[int], int]
Ends = Callable[[int], Mapping[int, int]]


def seen_at(second: int, position: int, candidate: Candidate | None = None) -> Observed:
    row = LanePosition(0, position, None, "copying")
    beat = LaneHeartbeat("r1", 1, 0, 1, "copying", False, 0.0, 0.0, (row,), "")
    return Observed(lanes={0: Heard(beat, NOW_MS + second * 1000 - 100)}, candidate=candidate)


def looks(
    seconds: Iterable[int], ends: Ends, most: int = PARAMS.live.sample_history
) -> Iterator[tuple[int, SampleHistory]]:
    """The samples of a daemon that starts with the first one, as they are kept after each."""
    kept: tuple[TopicSample, ...] = ()
    for second in seconds:
        found = ends(second)
        sample = TopicSample("main", "flights", "source-id", {0: 0}, found, found, NOW_MS + second * 1000, 1)
        kept = (*kept, sample)[-most:]
        yield second, SampleHistory(kept)


def judged(seconds: Iterable[int], ends: Ends, position: At) -> dict[int, CaughtUpClause]:
    """The clause of partition 0 at each look."""
    found = {}
    for second, history in looks(seconds, ends):
        seen = seen_at(second, position(second))
        [found[second]] = judge_partitions([0], seen, history, NOW_MS + second * 1000 + 50, PARAMS, {})
    return found


def ended_at(seconds: Iterable[int], ends: Ends, position: At) -> int | None:
    """The second of the look at which the recovery ends."""
    candidate = None
    for second, history in looks(seconds, ends):
        now_ms = NOW_MS + second * 1000 + 50
        candidate = evaluate_caught_up(RECOVERY, seen_at(second, position(second), candidate), history, now_ms, PARAMS)
        if is_caught_up(candidate, now_ms, PARAMS):
            return second
    return None


def every_period(until_s: int) -> range:
    return range(0, until_s, PERIOD_S)


def of_one(end: At) -> Ends:
    return lambda second: {0: end(second)}


def batch(second: int) -> int:
    return 0 if second < 100 else BATCH


def slow_after_a_while(second: int) -> int:
    """25,000 records/s, then the floor of the controller."""
    after = max(0, second - 100)
    return min(BATCH, min(after, 36) * 25_000 + max(0, after - 36) * 1_000)


def test_a_batch_is_not_taken_for_what_arrives_until_it_is_copied() -> None:
    clauses = judged(range(90, 400, PERIOD_S), of_one(batch), slow_after_a_while)
    for second, clause in clauses.items():
        if second >= 100 + GRACE_S:
            assert clause.holds is (slow_after_a_while(second) == BATCH), second
    stopped = ended_at(range(90, 400, PERIOD_S), of_one(batch), slow_after_a_while)
    assert stopped is not None
    assert slow_after_a_while(stopped) == BATCH


@pytest.mark.parametrize("late_s", range(60))
def test_no_clause_holds_while_anything_that_is_older_than_the_grace_and_a_look_is_not_copied(late_s: int) -> None:
    def bursts(second: int) -> int:
        return 50_000 * (max(0, second) // 37) + 3 * max(0, second)

    def position(second: int) -> int:
        return bursts(second - late_s)

    for second, clause in judged(every_period(600), of_one(bursts), position).items():
        old = bursts(second - GRACE_S - PERIOD_S)
        assert not clause.holds or position(second) >= old, second
        assert clause.holds or position(second) < bursts(second - GRACE_S), second


@pytest.mark.parametrize("late_s", [0, 3, 7, GRACE_S])
def test_beside_a_steady_producer_it_ends_half_a_minute_after_it_is_known_where_the_end_was(late_s: int) -> None:
    def end(second: int) -> int:
        return 70_000 + 1_000 * second

    ended = ended_at(every_period(300), of_one(end), lambda second: end(second - late_s))
    assert ended is not None
    assert ended <= 30 + GRACE_S


@pytest.mark.parametrize("late_s", [0, 7])
def test_after_a_producer_that_stops_it_ends_with_all_of_it(late_s: int) -> None:
    def end(second: int) -> int:
        return 1_000 * min(second, 20)

    ended = ended_at(every_period(300), of_one(end), lambda second: max(0, end(second - late_s)))
    assert ended is not None
    assert 30 <= ended <= 60


def test_one_that_is_always_later_than_the_grace_and_a_look_never_ends() -> None:
    def end(second: int) -> int:
        return 70_000 + 1_000 * second

    late_s = GRACE_S + PERIOD_S + 1
    assert ended_at(every_period(600), of_one(end), lambda second: end(second - late_s)) is None


def test_an_end_that_a_look_did_not_tell_was_not_reached() -> None:
    def ends(second: int) -> Mapping[int, int]:
        return {0: BATCH} if second in {0, 40} else {}

    clauses = judged(every_period(45), ends, lambda _: BATCH - 1)
    assert [c.holds for c in clauses.values()] == [False] * 9
    assert clauses[35].why == "the broker did not answer for it"
    assert clauses[40].wanted == BATCH


def test_after_a_gap_in_the_samples_it_must_be_at_the_very_end_until_one_is_old_enough() -> None:
    at_end = judged([0, 5, 10, 100, 105, 110, 115], of_one(batch), lambda _: BATCH)
    assert {s: c.holds for s, c in at_end.items() if s >= 100} == dict.fromkeys((100, 105, 110, 115), True)
    behind = judged([0, 5, 10, 100, 105, 110, 115], of_one(batch), lambda second: 0 if second < 100 else BATCH - 1)
    assert not any(c.holds for s, c in behind.items() if s >= 100)


def test_after_a_restart_it_is_measured_by_what_was_seen_since() -> None:
    def end(second: int) -> int:
        return 70_000 + 1_000 * second

    clauses = judged([0, 5, 10, 15], of_one(end), lambda second: end(second - 7))
    assert [c.holds for c in clauses.values()] == [False, False, True, True]
    assert [c.wanted for c in clauses.values()] == [end(0), end(0), end(0), end(5)]


def test_looks_of_a_clock_that_was_set_back_or_on_tell_nothing_of_before() -> None:
    for step_s in (-3_600, 3_600):
        seconds = [0, 5, 10, 15 + step_s]
        ends = of_one(lambda second, step_s=step_s: BATCH if second == 15 + step_s else 0)
        assert not judged(seconds, ends, lambda _: 1)[15 + step_s].holds


def test_a_log_that_was_cut_back_is_reached_at_its_end_only_while_it_is_known_how_long_it_was() -> None:
    def end(second: int) -> int:
        return 5_000 if second < 20 else 1_000 + 10 * (second - 20)

    clauses = judged(every_period(180), of_one(end), lambda second: end(second) - (1 if second > 100 else 0))
    assert clauses[20].why == "the end moved back"
    assert all(clauses[second].holds for second in range(25, 101, 5))
    assert not clauses[105].holds, "a look still tells of the longer log"
    assert clauses[175].holds


def test_one_answer_that_is_too_low_asks_for_no_less() -> None:
    def end(second: int) -> int:
        return 3_000 if second == 20 else 10_000 + second

    clauses = judged(every_period(60), of_one(end), lambda _: 5_000)
    assert not any(c.holds for second, c in clauses.items())


@pytest.mark.parametrize("graces", [1.5, 2.5])
@pytest.mark.parametrize(("chunk", "period"), [("5s", "5s"), ("5s", "1s"), ("30s", "5s"), ("30s", "1s")])
def test_a_row_goes_on_past_one_evaluation_at_which_it_was_at_most_three_graces_behind(
    tmp_path: Path, chunk: str, period: str, graces: float
) -> None:
    """As many looks are kept as that needs."""
    config = tmp_path / "c.yaml"
    config.write_text(
        f"clusters: {{main: {{bootstrap.servers: 'b:1'}}}}\nchunk: {{max_interval: {chunk}}}\nmonitor: {{interval: {period}}}\n"
    )
    params = load(config, env={}).params().recoveries
    step, grace_s, counts, candidate = params.sample_period_ms // 1000, params.head_grace_ms // 1000, [], None
    late_at = (4 * grace_s // step + 2) * step
    for second, history in looks(range(0, late_at + 2 * step, step), of_one(steady), params.live.sample_history):
        position = steady(second - round(graces * grace_s)) if second == late_at else steady(second)
        now_ms = NOW_MS + second * 1000 + 50
        candidate = evaluate_caught_up(RECOVERY, seen_at(second, position, candidate), history, now_ms, params)
        counts.append(candidate.count if candidate else 0)
    assert counts == [*range(1, len(counts) - 1), len(counts) - 2, len(counts) - 1]


def steady(second: int) -> int:
    return 70_000 + 1_000 * second


def test_the_evidence_tells_what_had_to_be_copied() -> None:
    def end(second: int) -> int:
        return 70_000 + 1_000 * second

    candidate = None
    for second, history in looks(every_period(45), of_one(end)):
        now_ms = NOW_MS + second * 1000
        seen = seen_at(second, end(second - 4), candidate)
        candidate = evaluate_caught_up(RECOVERY, seen, history, now_ms, PARAMS)
    assert candidate is not None
    assert candidate.evidence["grace_ms"] == PARAMS.head_grace_ms
    assert candidate.evidence["partitions"] == [
        {"partition": 0, "position": end(36), "end": end(40), "wanted": end(30)}
    ]
