"""How a game day is judged: what counts as harm, what is subtracted for the machine itself, and what passes."""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd_sandbox.gameday.__main__ import main as gameday
from recoveryd_sandbox.gameday.day import Day, verdicts
from recoveryd_sandbox.gameday.judge import (
    Quiet,
    Second,
    Tally,
    judge_cut,
    judge_death,
    judge_quiet,
    judge_run,
    judge_target,
)
from recoveryd_sandbox.gameday.observer import _behind_s, _quantile
from recoveryd_sandbox.gameday.report import draw, page, rows, section
from recoveryd_sandbox.gameday.runs import CONTROLLER, CUT, QUIET, UNLIMITED, Phase, Poll
from recoveryd_sandbox.gameday.runs import FIXED as BEST
from recoveryd_sandbox.gameday.scenario import FOLDER, NAMES, Slos, Target, read_gameday
from recoveryd_sandbox.gameday.search import GIVE_UP, LEAST_SHARE, RUNS_MOST, bad_seconds_most, best_rate, next_rate
from tests.sandbox.refusals import check_refused, told_on_refusal

PAGE = Path(__file__).parents[2] / "docs" / "gameday.md"
SLOS = Slos(p99_s=0.1, lag_s=5.0)


def seconds(start: int, count: int, p99_s: float | None = 0.01, lag_s: float | None = 1.0) -> list[Second]:
    return [Second(float(start + i), p99_s, lag_s) for i in range(count)]


@pytest.mark.parametrize(
    ("p99_s", "lag_s", "bad"),
    [(0.05, 1.0, 0), (0.1, 1.0, 10), (0.05, 5.0, 10), (None, 1.0, 10), (0.05, None, 10)],
)
def test_a_second_over_an_slo_or_without_an_answer_is_violated(
    p99_s: float | None, lag_s: float | None, bad: int
) -> None:
    tally = judge_run(seconds(0, 10, p99_s, lag_s), 10.0, None, SLOS, Quiet(0.0, 0.0))
    assert (tally.violated_s, tally.attributable_s) == (bad, bad)


def test_the_machines_own_bad_seconds_and_a_slow_broker_are_not_charged_to_a_run() -> None:
    alone = [*seconds(0, 38), *seconds(38, 2, 0.2), *seconds(40, 12, 0.2), *seconds(52, 5)]
    quiet = judge_quiet([(alone, (40.0, 52.0))], SLOS)
    assert quiet == Quiet(share=0.05, slow_violated_s=12.0)
    run = [*seconds(100, 80), *seconds(180, 12, 0.2), *seconds(192, 8, 0.2), *seconds(200, 17)]
    tally = judge_run(run, 117.0, (180.0, 192.0), SLOS, quiet)
    assert tally.violated_s == 20.0
    assert tally.attributable_s == pytest.approx(20.0 - 12.0 - 0.05 * 100.0)


def test_of_more_than_one_slow_broker_their_mean_is_what_one_costs() -> None:
    calm = (seconds(0, 60), None)
    one = ([*seconds(100, 12, 0.2), *seconds(112, 48)], (100.0, 112.0))
    other = ([*seconds(200, 9, 0.2), *seconds(209, 45), *seconds(254, 6, 0.2)], (200.0, 212.0))
    assert judge_quiet([calm, one, other], SLOS) == Quiet(share=6 / (60 + 43 + 43), slow_violated_s=10.5)
    assert judge_quiet([calm], SLOS) == Quiet(share=0.0, slow_violated_s=0.0)
    assert judge_quiet([], SLOS) == Quiet(share=0.0, slow_violated_s=0.0)


def test_a_run_better_than_no_replay_is_charged_nothing() -> None:
    tally = judge_run(seconds(0, 50), 50.0, None, SLOS, Quiet(0.5, 12.0))
    assert tally.attributable_s == 0.0


def runs(*runs: tuple[float, float]) -> list[Tally]:
    """Runs as (seconds, bad seconds beyond no replay)."""
    return [Tally(took_s, bad_s, bad_s) for took_s, bad_s in runs]


HURTS = runs((40.0, 20.0), (40.0, 20.0), (40.0, 20.0))
FIXED = runs((100.0, 0.0), (90.0, 1.0), (110.0, 0.0))


@pytest.mark.scenario("S-RUN-30")
@pytest.mark.parametrize(
    ("controller", "passed"),
    [
        (runs((120.0, 2.4), (120.0, 0.0), (500.0, 400.0)), [True, True, True]),
        (runs((121.0, 0.0), (121.0, 0.0), (100.0, 0.0)), [False, True, True]),
        (runs((100.0, 2.1), (100.0, 2.1), (100.0, 0.0)), [True, False, True]),
    ],
)
def test_the_promises_are_a_time_and_two_per_cent_by_the_median_of_the_runs(
    controller: list[Tally], passed: list[bool]
) -> None:
    target = Target(against="best fixed", most_times=1.2)
    assert [v.passed for v in judge_target(target, HURTS, FIXED, controller)] == passed


def test_less_than_best_fixed_means_less() -> None:
    target = Target(against="best fixed", most_times=1.0, strictly=True)
    assert not judge_target(target, HURTS, FIXED, runs((100.0, 0.0)))[0].passed
    assert judge_target(target, HURTS, FIXED, runs((99.0, 0.0)))[0].passed


def test_what_unlimited_does_must_be_what_the_scenario_is_for() -> None:
    calm = runs((40.0, 0.0))
    against_fixed, against_unlimited = (
        Target(against="best fixed", most_times=1.2),
        Target(against="unlimited", most_times=1.4),
    )
    assert [v.passed for v in judge_target(against_unlimited, calm, [], runs((56.0, 0.0)))] == [True, True, True]
    assert [v.passed for v in judge_target(against_unlimited, HURTS, [], runs((56.0, 0.0)))] == [True, True, False]
    shows_nothing = judge_target(against_fixed, calm, calm, runs((48.0, 0.0)))[2]
    assert not shows_nothing.passed
    assert "shows nothing" in shows_nothing.sentence


def harm(rate: int) -> float:
    """Bad from 23 MB/s on."""
    return 0.0 if rate < 23_000_000 else 0.3


def searched(harm_of: Callable[[int], float], unlimited: int = 44_000_000) -> dict[int, list[float]]:
    trials = {unlimited: [harm_of(unlimited)] * 3}
    while (rate := next_rate(trials, unlimited, 0.02, 3)) is not None:
        trials.setdefault(rate, []).append(harm_of(rate))
    return trials


def test_the_best_fixed_rate_is_found_within_a_seventh_and_run_three_times() -> None:
    trials = searched(harm)
    best = best_rate(trials, 0.02)
    assert best is not None
    assert 20_000_000 <= best < 23_000_000
    assert len(trials[best]) == 3
    assert sum(map(len, trials.values())) <= 3 + 7


def test_where_unlimited_is_harmless_it_is_the_best_rate_and_nothing_is_searched() -> None:
    trials = searched(lambda _: 0.01)
    assert list(trials) == [44_000_000]
    assert best_rate(trials, 0.02) == 44_000_000


def test_a_good_rate_that_was_bad_once_by_bad_luck_is_run_until_most_runs_agree() -> None:
    seen: list[int] = []

    def unlucky_once(rate: int) -> float:
        seen.append(rate)
        return 0.3 if rate >= 23_000_000 or seen.count(rate) == 2 else 0.0

    trials = searched(unlucky_once)
    best = best_rate(trials, 0.02)
    assert best is not None
    assert best >= 20_000_000
    assert trials[best] == [0.0, 0.3, 0.0]


def test_a_rate_that_was_good_once_by_luck_is_left_for_a_lower_one() -> None:
    seen: list[int] = []

    def lucky_once(rate: int) -> float:
        seen.append(rate)
        return 0.0 if rate < 23_000_000 or (rate < 30_000_000 and seen.count(rate) == 1) else 0.3

    trials = searched(lucky_once)
    best = best_rate(trials, 0.02)
    assert best is not None
    assert best < 23_000_000
    assert len(trials[best]) == 3
    assert [0.0, 0.3, 0.3] in trials.values(), "it was taken for good until most runs were bad"


def test_a_run_is_given_up_only_when_it_has_more_bad_seconds_than_a_whole_one_may_have() -> None:
    quiet = Quiet(share=0.01, slow_violated_s=5.0)
    assert bad_seconds_most(10, {}, 0.02, quiet) == math.inf, "nobody knows how long it takes"
    most = bad_seconds_most(10, {20: 100.0, 40: 50.0}, 0.02, quiet)
    assert most == pytest.approx(GIVE_UP * (200.0 * 0.03 + 5.0))
    tally = judge_run(seconds(0, 200, 0.2)[: math.ceil(most)], 200.0, (0.0, 10.0), SLOS, quiet)
    assert tally.share > 0.02


def test_where_every_rate_does_harm_the_search_ends_without_one() -> None:
    trials = searched(lambda _: 0.5)
    assert best_rate(trials, 0.02) is None
    assert min(trials) >= 44_000_000 * LEAST_SHARE


def test_a_search_in_noise_ends() -> None:
    rng = random.Random(1)
    trials = searched(lambda _: rng.choice([0.0, 0.1]))
    assert sum(map(len, trials.values())) <= 3 + RUNS_MOST


@pytest.mark.parametrize(("during", "after", "passed"), [(1.0e6, 8e6, True), (4.0e6, 8e6, False), (1.0e6, 2e6, False)])
def test_blind_the_rate_must_reach_its_floor_and_come_back(during: float, after: float, passed: bool) -> None:
    rates = [(0.0, 10e6), (10.0, 5e6), (59.0, during), (70.0, after)]
    assert judge_cut(rates, (5.0, 65.0), 1e6).passed is passed


def test_a_run_that_ends_before_telemetry_is_cut_proves_nothing() -> None:
    assert not judge_cut([(0.0, 1e6)], None, 1e6).passed


@pytest.mark.parametrize(
    ("at_the_end", "after", "passed"), [(0, 8e6, True), (10_000, 8e6, True), (40_000, 8e6, False), (0, 2e6, False)]
)
def test_without_a_daemon_lanes_must_get_slow_and_the_rate_come_back(
    at_the_end: int, after: float, passed: bool
) -> None:
    """Records of 100 bytes, of which the floor lets 10,000 pass per second."""
    quick = [(5.0 + 5 * step, 100_000 * step) for step in range(4)]
    landed = [*quick, (45.0, 300_000), (55.0, 300_000 + 10 * at_the_end), (65.0, 300_000 + 20 * at_the_end)]
    verdict = judge_death(landed, (5.0, 65.0), [(0.0, 10e6), (70.0, after)], 100.0, 1e6)
    assert verdict.passed is passed, verdict


def test_a_death_that_never_came_or_that_nobody_watched_proves_nothing() -> None:
    rates = [(0.0, 10e6), (70.0, 8e6)]
    assert not judge_death([], None, rates, 100.0, 1e6).passed
    assert not judge_death([(5.0, 0), (64.0, 0)], (5.0, 65.0), rates, 100.0, 1e6).passed


@pytest.mark.parametrize("name", NAMES)
def test_each_scenario_is_fixed_in_its_file(name: str) -> None:
    scenario = read_gameday(name)
    assert scenario.name == name
    assert scenario.target.bad_share_most == 0.02


def test_the_scenarios_promise_what_was_set() -> None:
    found = {name: read_gameday(name).target for name in NAMES}
    assert {name: (t.against, t.most_times, t.strictly) for name, t in found.items()} == {
        "shared-core": ("unlimited", 1.4, False),
        "today": ("best fixed", 1.5, False),
        "harmless": ("unlimited", 1.4, False),
        "swings": ("best fixed", 1.0, True),
        "near-limit": ("best fixed", 1.2, False),
    }


TODAY = (FOLDER / "today.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "code", "said", "hint"),
    [
        ("- 1", Code.CONFIG_UNREADABLE, "must be one mapping", ""),
        (TODAY + "lood: {}", Code.CONFIG_UNKNOWN_KEY, "day.yaml:10: There is no key lood.", "Did you mean load?"),
        (TODAY.replace("4000,", "-4,"), Code.CONFIG_INVALID, "load.live_records_per_s", "today.yaml"),
        (TODAY.replace("30ms", "soon"), Code.CONFIG_INVALID, "day.yaml:3: slo.p99", "today.yaml"),
        (TODAY.replace("best fixed", "the wind"), Code.CONFIG_INVALID, "target.against", "today.yaml"),
        (TODAY.replace("gzip", "zip"), Code.CONFIG_INVALID, "day.yaml:5: target_compression", "today.yaml"),
        (TODAY.replace("slo:", "# slo:"), Code.CONFIG_INVALID, "slo is required", "today.yaml"),
        (
            TODAY.replace("backlog", "reader_records_per_s: 10, backlog"),
            Code.CONFIG_INVALID,
            "must be above the 4000 records/s",
            "today.yaml",
        ),
        (TODAY.replace("slow_broker: {}", "slow_broker: {stop: 1s}"), Code.CONFIG_INVALID, "shorter than cycle", ""),
    ],
)
def test_a_scenario_with_nonsense_is_refused_with_its_place_and_a_next_step(
    tmp_path: Path, text: str, code: Code, said: str, hint: str
) -> None:
    check_refused(lambda file: read_gameday(str(file)), tmp_path / "day.yaml", text, code, said, hint)


def test_a_scenario_that_is_not_there_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_on_refusal(gameday, ["yesterday"], capsys, monkeypatch)
    assert told.startswith("RCV-4001 yesterday: No such file")


def phase(name: str, start: float, lasts: int, bad: int = 0, fixed: int | None = None) -> Phase:
    polls = [Poll(start + at, "running", 100 * at, 2e6, 3e6 if fixed is None else None, "") for at in range(lasts)]
    status = {"progress": {"records": 1_000, "bytes": 2e6 * lasts}} if name != QUIET else {}
    found = [*seconds(int(start), lasts - bad), *seconds(int(start) + lasts - bad, bad, 0.2)]
    return Phase(name, start, fixed, start + lasts, polls=polls, seconds=found, status=status)


def a_day() -> Day:
    by_kind = {
        UNLIMITED: tuple(phase(UNLIMITED, 1_000.0 * n, 40, bad=20) for n in (1, 2, 3)),
        BEST: tuple(phase(BEST, 10_000.0 * n, 90 + n, fixed=20_000_000) for n in (1, 2, 3)),
        CONTROLLER: tuple(phase(CONTROLLER, 100_000.0 * n, 100 + n) for n in (1, 2, 3)),
    }
    quiet = (phase(QUIET, 0.0, 60), phase(QUIET, 500.0, 60))
    return Day(read_gameday("swings"), quiet, by_kind, ((20_000_000, 0.0),), 20_000_000)


def test_a_day_is_judged_as_a_whole() -> None:
    day = a_day()
    assert [v.passed for v in verdicts(day)] == [False, True, True, True, True]
    short = replace(day, quiet=day.quiet[:1])
    assert [v.passed for v in verdicts(short)] == [False, True, True, False, True]
    assert [v.passed for v in verdicts(replace(day, best=None))] == [False, True, True]
    assert day.usual(CONTROLLER).lasted_s == 102


def test_a_day_is_shown_as_a_table_a_picture_and_a_section(tmp_path: Path) -> None:
    day = a_day()
    assert rows(day)[0][:5] == ("no replay", "2", "120", "-", "-")
    assert rows(day)[1] == ("unlimited", "3", "40", "38", "0", "2.1", "200", "200", "1.0", "20", "0", "20", "50.0%")
    picture = tmp_path / "day.png"
    draw(picture, day)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = section(day, verdicts(day), "a machine")
    assert "**missed**: the controller took 102 s (101, 102, 103), 1.11 times" in text
    once = page("", {"swings": text})
    assert once.count("Not measured on this version yet.") == len(NAMES) - 1
    overview = {line.split("`")[1]: line for line in once.splitlines() if line.startswith("| `")}
    assert overview["swings"].endswith("| **missed**: 1.11 times best fixed, 0.0% bad |")
    assert overview["today"].endswith("| not on this version yet |")
    twice = page(once, {"today": "measured today"})
    assert "**missed**: the controller took 102 s" in twice
    assert "measured today" in twice


def test_the_overview_calls_a_promise_missed_whichever_part_of_it_was() -> None:
    told = "- {}: the controller took 83 s (80, 91, 83), 0.60 times the 140 s of best fixed (less than 1 times)\n"
    bad = "- {}: 2.2% of its seconds were bad beyond no replay (at most 2%)\n"
    missed = "**missed**"
    for kept in (("kept", "kept"), ("kept", missed), (missed, "kept"), (missed, missed)):
        written = page(PAGE.read_text(encoding="utf-8"), {"swings": told.format(kept[0]) + bad.format(kept[1])})
        [row] = [line for line in written.splitlines() if line.startswith("| `swings`")]
        word = missed if missed in kept else "kept"
        assert row.endswith(f"| {word}: 0.60 times best fixed, 2.2% bad |")


def with_proof(copied: Phase, lasts: int, granted: float) -> Phase:
    """The same run with a proof behind it."""
    begun = copied.stop_s
    proof = [Poll(begun + at, "verifying", copied.polls[-1].copied, 90e6, granted, "") for at in range(lasts)]
    return replace(copied, polls=[*copied.polls, *proof], stop_s=begun + lasts)


def test_the_time_of_the_proof_is_shown_beside_that_of_the_copy(tmp_path: Path) -> None:
    day = a_day()
    proved = tuple(with_proof(each, 50, 90e6) for each in day.runs[CONTROLLER])
    day = replace(day, runs={**day.runs, CONTROLLER: proved}, given_up=1)
    told = {row[0]: row for row in rows(day)}
    assert told["controller"][2:5] == ("152", "100", "50")
    assert told["best fixed"][1] == "3 (and 1 stopped early)"
    draw(tmp_path / "day.png", day)


def test_where_unlimited_is_the_best_rate_it_is_named_so_and_drawn_once(tmp_path: Path) -> None:
    day = a_day()
    day = replace(day, runs={**day.runs, BEST: day.runs[UNLIMITED]})
    assert "best fixed (unlimited)" in {row[0] for row in rows(day)}
    picture, other = tmp_path / "day.png", tmp_path / "other.png"
    draw(picture, day)
    draw(other, a_day())
    assert width_of(picture) < width_of(other)


def width_of(picture: Path) -> int:
    """Of a PNG, in pixels."""
    return int.from_bytes(picture.read_bytes()[16:20], "big")


def test_what_is_granted_to_the_proof_is_no_return_of_the_copy() -> None:
    day = a_day()
    blind = phase(CUT, 2_000_000.0, 100)
    at_floor = [replace(poll, granted=day.scenario.floor) for poll in blind.polls[40:]]
    blind = replace(blind, polls=[*blind.polls[:40], *at_floor], cut=(blind.start_s + 40, blind.start_s + 60))
    found = verdicts(replace(day, runs={**day.runs, CUT: (with_proof(blind, 50, 90e6),)}))
    (cut,) = (verdict for verdict in found if "without telemetry" in verdict.sentence)
    assert not cut.passed


@pytest.mark.parametrize(
    ("stand", "behind_s"),
    [(400, 0.0), (500, 0.0), (300, 1.0), (250, 1.5), (100, 3.0), (50, 3.0)],
)
def test_the_observers_time_lag_is_when_the_log_ended_where_the_group_stands(stand: int, behind_s: float) -> None:
    history = deque([(1000.0, 100), (1001.0, 200), (1002.0, 300), (1003.0, 400)])
    assert _behind_s(history, stand) == pytest.approx(behind_s)


def test_nothing_acknowledged_is_no_number() -> None:
    assert _quantile([], 0.99) is None
    assert _quantile([0.1 * i for i in range(100)], 0.99) == pytest.approx(9.9)


def test_the_page_is_what_the_game_day_would_write() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page(written, {}) == written
