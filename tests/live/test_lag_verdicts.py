"""A case per rule of the lag verdicts, and one per false zero (or false lag) that tools are known to report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from recoveryd.live.lag.commits import commit_gap_ms, lag_at_commit_s
from recoveryd.live.lag.evaluate import evaluate_group, evaluate_partition
from recoveryd.live.lag.verdicts import SEVERITY, LagVerdict
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample

V = LagVerdict
PARAMS = LagParams()
COMMITTED = replace(PARAMS, is_read_committed=True)
WIDE = replace(PARAMS, allowed_lag=1_000)
START_MS, PERIOD_MS = 1_800_000_000_000, 5_000


def samples(
    positions: Sequence[int | None],
    ends: Sequence[int | None],
    *,
    log_start: int = 0,
    stable: Sequence[int | None] | None = None,
    topics: Sequence[str] | None = None,
    active: bool | None = True,
    end_after_ms: int = 100,
    every_ms: int = PERIOD_MS,
) -> list[LagSample]:
    """A sample every period: first the position, `end_after_ms` later the end."""
    found = []
    for i, (position, end) in enumerate(zip(positions, ends, strict=True)):
        at_ms = START_MS + i * every_ms
        last_stable = stable[i] if stable else None
        topic = topics[i] if topics else "t1"
        found.append(
            LagSample(position, at_ms, end, at_ms + end_after_ms, log_start, last_stable, topic, active),
        )
    return found


def watched(found: Sequence[LagSample], params: LagParams = PARAMS) -> tuple[Window, int]:
    """The window after all samples, and a time shortly after the last."""
    window = Window()
    for sample in found:
        window = with_sample(window, sample, sample.end_at_ms, params)
    last = found[-1] if found else None
    return window, (max(last.position_at_ms, last.end_at_ms) + 200 if last else START_MS)


@dataclass(frozen=True)
class Row:
    name: str
    why: str
    found: list[LagSample]
    verdict: LagVerdict
    rule: int
    lag: int | None
    params: LagParams = PARAMS
    later_ms: int = 0


FLAT = [5_000] * 10
RISING = list(range(1_000, 11_000, 1_000))  # 200 records/s, so 2,000 may lie between two commits and two looks
AHEAD = [end + 5_000 for end in RISING]

RULES = [
    Row("1", "nobody ever looked", [], V.UNKNOWN, 1, None),
    Row(
        "2 anew",
        "offsets of a topic that was created anew mean nothing yet",
        samples([90] * 3, [100] * 3, topics=["t1", "t1", "t2"]),
        V.INVALID,
        2,
        None,
    ),
    Row("2 end", "a log end never moves back", samples([5] * 6, [100] * 5 + [50]), V.INVALID, 2, None),
    Row("3", "twelve seconds old with a period of five", samples(FLAT, FLAT), V.UNKNOWN, 3, None, later_ms=12_000),
    Row("3 end", "the end was never answered", samples([5] * 6, [None] * 6), V.UNKNOWN, 3, None),
    Row("4", "no commit is not zero lag", samples([None] * 6, FLAT[:6]), V.UNKNOWN, 4, None),
    Row(
        "5",
        "what was deleted before it was read is lost",
        samples([10] * 6, [90] * 6, log_start=40),
        V.DATA_LOST,
        5,
        50,
    ),
    Row("6", "a position past the end belongs to another log", samples([120] * 6, [100] * 6), V.INVALID, 6, None),
    Row(
        "7",
        "no reader reads a million records in five seconds",
        samples([0, 10, 20, 30, 1_000_040, 1_000_050], [1_000_050] * 6),
        V.INVALID,
        7,
        None,
        params=replace(PARAMS, advance_most_per_s=1_000.0),
    ),
    Row(
        "8",
        "an open transaction holds the last stable offset for a minute",
        samples([100] * 14, [150 + i for i in range(14)], stable=[100] * 14),
        V.BLOCKED_BY_TXN,
        8,
        63,
        params=replace(COMMITTED, blocked_after_ms=60_000),
    ),
    Row(
        "9",
        "an end older than the position gives a lag that is too small",
        samples(RISING[:6], RISING[:6], end_after_ms=-2_000),
        V.UNKNOWN,
        9,
        None,
    ),
    Row("10", "two of ten slots say nothing about behaviour", samples([0, 0], [5_000, 5_000]), V.UNKNOWN, 10, 5_000),
    Row(
        "11",
        "commits came each second, none for six",
        samples([10] * 6, FLAT[:6], every_ms=1_000),
        V.STOPPED,
        11,
        4_990,
        later_ms=6_000,
    ),
    Row("11 empty", "the group has no member", samples([10] * 6, FLAT[:6], active=False), V.STOPPED, 11, 4_990),
    Row("12", "the group was reset to an older offset", samples([900] * 5 + [100], [5_000] * 6), V.REWOUND, 12, 4_900),
    Row("13", "everything is read and more comes", samples(RISING, RISING), V.OK, 13, 0),
    Row("13 idle", "everything is read and nothing comes", samples(FLAT, FLAT), V.IDLE, 13, 0),
    Row("14", "it was at the end in this window", samples([1_000] * 6, [1_000] * 5 + [9_000]), V.OK, 14, 8_000),
    Row("15", "commits come, the position stays", samples([10] * 10, AHEAD), V.STALLED, 15, 14_990),
    Row(
        "16",
        "it reads, but slower than is written",
        samples(list(range(0, 1_000, 100)), AHEAD),
        V.FALLING_BEHIND,
        16,
        14_100,
    ),
    Row(
        "17",
        "it reads faster than is written",
        samples(list(range(0, 40_000, 4_000)), [r + 50_000 for r in RISING]),
        V.CATCHING_UP,
        17,
        24_000,
    ),
    Row(
        "18",
        "the lag goes up and down and ends where it began",
        samples([0, 500, 500, 3_000, 3_000, 3_900], [20_000 + i * 1_000 for i in range(6)]),
        V.OK,
        18,
        21_100,
    ),
]


@pytest.mark.parametrize("row", RULES, ids=[f"{r.name}: {r.why}" for r in RULES])
def test_each_rule_gives_its_verdict(row: Row) -> None:
    window, now_ms = watched(row.found, row.params)
    found = evaluate_partition(0, window, now_ms + row.later_ms, row.params)
    assert (found.verdict, found.rule, found.offset_lag) == (row.verdict, row.rule, row.lag), found.why


@dataclass(frozen=True)
class FalseZero:
    """A situation in which tools report zero (or a wrong number), and the right verdict."""

    cause: str
    found: list[LagSample]
    verdict: LagVerdict
    lag: int | None
    time_lag_s: float | None
    params: LagParams = PARAMS
    later_ms: int = 0
    planned: tuple[int, ...] = (0,)


FALSE_ZEROS = [
    FalseZero(
        "end sampled before the position, difference clamped: 0 too early",
        samples(RISING, [end - 300 for end in RISING], end_after_ms=-1_500),
        V.UNKNOWN,
        None,
        None,
    ),
    FalseZero(
        "a cached end offset looks like zero lag", samples(RISING, RISING), V.UNKNOWN, None, None, later_ms=60_000
    ),
    FalseZero(
        "a partition that never commits is left out of the sum",
        samples(RISING, RISING),
        V.UNKNOWN,
        None,
        None,
        planned=(0, 1),
    ),
    FalseZero(
        "commit -1: never committed, or expired with the empty group",
        samples([-1] * 6, FLAT[:6]),
        V.UNKNOWN,
        None,
        None,
    ),
    FalseZero(
        "reset to latest after expiry: lag really is zero, and everything between was skipped",
        samples([100, 110, 120, 130, 140, 900_000], [900_000] * 6),
        V.INVALID,
        None,
        None,
        params=replace(PARAMS, advance_most_per_s=10_000.0),
    ),
    FalseZero(
        "topic created anew: the commit lies past the end and is clamped",
        samples([5_000] * 6, [5_000] * 3 + [7] * 3, topics=["t1"] * 3 + ["t2"] * 3),
        V.INVALID,
        None,
        None,
    ),
    FalseZero(
        "truncated or mirrored log: the commit lies past the end",
        samples([5_000] * 6, [4_000] * 6),
        V.INVALID,
        None,
        None,
    ),
    FalseZero(
        "retention passed the commit: phantom lag from offsets that are gone",
        samples([100] * 6, [9_000] * 6, log_start=8_000),
        V.DATA_LOST,
        1_000,
        None,
    ),
    FalseZero(
        "everything expired: lag zero, and all of it lost",
        samples([100] * 6, [9_000] * 6, log_start=9_000),
        V.DATA_LOST,
        0,
        None,
    ),
    FalseZero(
        "read_committed: a hanging transaction freezes the last stable offset",
        samples([500] * 10, RISING, stable=[500] * 10),
        V.BLOCKED_BY_TXN,
        9_500,
        None,
        params=replace(COMMITTED, blocked_after_ms=40_000),
    ),
    FalseZero(
        "a marker at the tail keeps the lag at one for ever",
        samples([499] * 10, [500] * 10, stable=[500] * 10),
        V.IDLE,
        1,
        0.0,
        params=COMMITTED,
    ),
    FalseZero(
        "the last member left, and little comes of late: what nobody reads is not near for being little",
        samples([6_000] * 8, [6_000, 6_100, 6_200, 6_300, 6_400, 6_500, 6_600, 6_700], active=False),
        V.IDLE,
        700,
        34.9,
        params=WIDE,
    ),
    FalseZero(
        "without transactions one unread record is one record", samples([499] * 10, [500] * 10), V.STALLED, 1, None
    ),
    FalseZero(
        "compaction gaps: offsets are compared, records are never counted",
        samples([10, 4_000, 4_000, 9_999, 9_999, 10_000], [10_000] * 6),
        V.OK,
        0,
        0.0,
    ),
    FalseZero("a paused client's gauge freezes", samples(FLAT, FLAT), V.UNKNOWN, None, None, later_ms=11_000),
    FalseZero(
        "commits each five seconds on a live topic: a saw-tooth that never is zero",
        samples([end - 900 for end in RISING], RISING),
        V.OK,
        900,
        4.4,
    ),
    FalseZero("an empty history is no proof of health", [], V.UNKNOWN, None, None),
]


@pytest.mark.scenario("S-WIKI-4a")
@pytest.mark.parametrize("row", FALSE_ZEROS, ids=[r.cause for r in FALSE_ZEROS])
def test_no_false_zero_and_no_false_lag(row: FalseZero) -> None:
    window, now_ms = watched(row.found, row.params)
    windows = {0: window} if row.found else {}
    group = evaluate_group(windows, row.planned, now_ms + row.later_ms, row.params)
    assert (group.verdict, group.offset_lag, group.time_lag_s) == (
        row.verdict,
        row.lag,
        pytest.approx(row.time_lag_s),
    ), group.why


@pytest.mark.parametrize(("active", "verdict"), [(True, V.STALLED), (False, V.STOPPED)])
def test_what_was_written_before_a_silence_hides_no_reader_that_stopped_in_it(active: bool, verdict: V) -> None:
    """Five minutes of 100 records/s, then nothing: neither of writers nor of the reader, which lacks 600."""
    rising = [500 * i for i in range(60)]
    still = rising[-1:] * 11
    found = samples([*rising, *still], [at + 600 for at in (*rising, *still)])
    found = [sample if at < 60 else sample._replace(is_active=active) for at, sample in enumerate(found)]
    window, now_ms = watched(found)
    told = evaluate_partition(0, window, now_ms, PARAMS)
    assert (told.verdict, told.offset_lag) == (verdict, 600), told.why


def rare(looks: int, every: int, until: int) -> list[LagSample]:
    """A reader that keeps up and commits at each so manyth look, and at none from `until` on."""
    ends = [500 * i for i in range(looks)]
    return samples([ends[min(i, until - 1) // every * every] for i in range(looks)], ends)


@pytest.mark.parametrize("every", [2, 4, 6, 8])
def test_a_reader_that_commits_rarely_is_well_between_two_commits(every: int) -> None:
    found = rare(60, every, 60)
    for looks in range(3 * every, 60):
        window, now_ms = watched(found[:looks])
        told = evaluate_partition(0, window, now_ms, PARAMS)
        assert (told.verdict, told.rule) == (V.OK, 13), told.why
        assert told.steady_s is not None
        assert told.steady_s <= 10
        assert (lag_at_commit_s(window, told.time_lag_s, PARAMS) or 0) <= 1


def test_the_lag_of_a_reader_that_does_not_commit_in_time_is_told_as_it_is() -> None:
    """It commits each thirty seconds, and lacks 40 s by then; with an SLO of 40 s it is told just as early."""
    window, now_ms = watched(rare(39, 6, 31))
    for params in (PARAMS, replace(PARAMS, slo_ms=40_000)):
        told = evaluate_partition(0, window, now_ms, params)
        assert told.steady_s == told.time_lag_s == pytest.approx(40, abs=0.2)
    window, now_ms = watched(rare(36, 6, 31))
    assert evaluate_partition(0, window, now_ms, replace(PARAMS, slo_ms=25_000)).steady_s == pytest.approx(25, abs=0.2)


def test_a_lag_near_its_slo_is_told_as_it_is_however_rarely_the_group_commits() -> None:
    """It commits each forty seconds, and lacks 25 s then; the SLO is a minute."""
    ends = [500 * i for i in range(72)]
    found = samples([max(0, ends[i // 8 * 8] - 2_500) for i in range(72)], ends)
    late = 0
    for looks in range(40, 72):
        window, now_ms = watched(found[:looks])
        told = evaluate_partition(0, window, now_ms, replace(PARAMS, slo_ms=60_000))
        assert told.time_lag_s is not None
        if told.time_lag_s > 55:
            late += 1
            assert told.steady_s == told.time_lag_s
    assert late >= 4


def test_a_time_without_members_is_no_wait_for_a_commit() -> None:
    keeps_up = rare(60, 1, 60)
    away = [sample if not 20 <= at < 35 else sample._replace(position=keeps_up[19].position, is_active=False)
            for at, sample in enumerate(keeps_up)]  # fmt: skip
    again = [sample if not 40 <= at < 55 else sample._replace(position=away[39].position, is_active=False)
             for at, sample in enumerate(away)]  # fmt: skip
    window, _ = watched(again)
    assert commit_gap_ms(window, PARAMS) == PARAMS.commit_interval_ms


def test_waits_with_nothing_to_read_and_a_single_long_one_say_nothing_of_how_often_a_group_commits() -> None:
    quiet = samples([i // 8 for i in range(60)], [i // 8 for i in range(60)])
    assert commit_gap_ms(watched(quiet)[0], PARAMS) == 5_000
    ends = [500 * i for i in range(60)]
    once = samples([*ends[:40], *[ends[39]] * 10, *ends[50:]], ends)
    assert commit_gap_ms(watched(once[:52])[0], PARAMS) == 5_000
    assert commit_gap_ms(watched(rare(60, 12, 60))[0], PARAMS) == 50_000, "no longer than the ring"


def test_a_group_is_as_bad_as_its_worst_planned_partition() -> None:
    idle, now_ms = watched(samples(FLAT, FLAT))
    stalled, _ = watched(samples([10] * 10, AHEAD))
    group = evaluate_group({0: idle, 1: stalled, 7: stalled}, (0, 1, 2), now_ms, PARAMS)
    assert (group.verdict, group.coverage, group.offset_lag, group.fill) == (V.STALLED, pytest.approx(2 / 3), None, 0.0)
    assert group.why == "partition 1: the position does not move, 14,990 records wait"
    assert [(p.partition, p.verdict) for p in group.partitions] == [(0, V.IDLE), (1, V.STALLED), (2, V.UNKNOWN)]


def test_a_group_with_every_partition_known_sums_offsets_and_takes_the_longest_time() -> None:
    near, now_ms = watched(samples([end - 100 for end in RISING], RISING))
    far, _ = watched(samples([end - 900 for end in RISING], RISING))
    group = evaluate_group({0: near, 1: far}, (0, 1), now_ms, PARAMS)
    assert (group.verdict, group.offset_lag, group.coverage, group.sample_age_ms) == (V.OK, 1_000, 1.0, 300)
    assert group.time_lag_s == pytest.approx(4.4)


def test_without_planned_partitions_nothing_is_known() -> None:
    group = evaluate_group({}, (), START_MS, PARAMS)
    assert (group.verdict, group.coverage, group.time_lag_s, group.why) == (
        V.UNKNOWN,
        0.0,
        None,
        "no partition is planned",
    )


def test_not_knowing_hides_no_trouble_and_no_calm_hides_not_knowing() -> None:
    calm = {V.OK, V.IDLE, V.CATCHING_UP}
    assert all(SEVERITY[v] < SEVERITY[V.UNKNOWN] for v in calm)
    assert all(SEVERITY[v] > SEVERITY[V.UNKNOWN] for v in set(V) - calm - {V.UNKNOWN})


@pytest.mark.parametrize("rule", range(1, 19))
def test_every_rule_has_a_row(rule: int) -> None:
    assert rule in {row.rule for row in RULES}
