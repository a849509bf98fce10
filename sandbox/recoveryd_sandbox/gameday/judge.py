"""What counts as harm, how much of it a run caused, and whether that passes. Pure: seconds in, verdicts out.

A machine has bad seconds of its own, and a slow broker does harm with or without a replay. So a run is charged only
with what exceeds the stretches without a replay, in which the broker was slowed in the same way.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median

from recoveryd_sandbox.gameday.scenario import Slos, Target

SLOW_TAIL_S = 5.0  # after the broker was last stopped, for requests that queued
FLOOR_SLACK = 1.05
LAST_OF_DEATH = 1 / 3  # of the time without a daemon: leases have run out by then
BACK_LEAST = 3.0  # as a multiple of the floor


@dataclass(frozen=True)
class Second:
    """One second of the observer. None = nothing was acknowledged, or the group's position is not known; that counts as
    over the SLO. `waits_s`: each acknowledgement by itself.
    """

    at_s: float
    p99_s: float | None
    lag_s: float | None
    waits_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class LiveSecond:
    """What the live application measured itself in about a second."""

    at_s: float
    p99_s: float


@dataclass(frozen=True)
class Quiet:
    """The stretches without a replay: the share of violated seconds in normal time, and how many violated seconds one
    slow broker causes.
    """

    share: float
    slow_violated_s: float


@dataclass(frozen=True)
class Tally:
    """Violated seconds of a run, and those that exceed what the same time without a replay shows. `by_p99_s` and
    `by_lag_s`: which SLO they were over; maybe both.
    """

    seconds: float
    violated_s: float
    attributable_s: float
    by_p99_s: float = 0.0
    by_lag_s: float = 0.0

    @property
    def share(self) -> float:
        return self.attributable_s / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Verdict:
    passed: bool
    sentence: str


def is_slow(second: Second, slos: Slos) -> bool:
    return second.p99_s is None or second.p99_s >= slos.p99_s


def is_behind(second: Second, slos: Slos) -> bool:
    return second.lag_s is None or second.lag_s >= slos.lag_s


def is_violated(second: Second, slos: Slos) -> bool:
    return is_slow(second, slos) or is_behind(second, slos)


def within(seconds: Sequence[Second], start_s: float, stop_s: float) -> list[Second]:
    return [second for second in seconds if start_s <= second.at_s < stop_s]


def judge_quiet(stretches: Iterable[tuple[Sequence[Second], tuple[float, float] | None]], slos: Slos) -> Quiet:
    """The stretches without a replay, each with when the broker was slow in it, as (begin, end). One slow broker causes
    now more, now fewer bad seconds, so it is their mean that counts.
    """
    normal, slowed = list[bool](), list[int]()
    for seconds, slow in stretches:
        begin_s, end_s = (math.inf, math.inf) if slow is None else (slow[0], slow[1] + SLOW_TAIL_S)
        normal += [is_violated(s, slos) for s in seconds if not begin_s <= s.at_s < end_s]
        if slow is not None:
            slowed.append(sum(is_violated(s, slos) for s in within(seconds, begin_s, end_s)))
    return Quiet(mean(normal) if normal else 0.0, float(mean(slowed)) if slowed else 0.0)


def judge_run(
    seconds: Sequence[Second], run_s: float, slow: tuple[float, float] | None, slos: Slos, quiet: Quiet
) -> Tally:
    """`run_s`: how long the run took. A run that ended before the broker was slowed is charged as one without a slow
    broker.
    """
    violated_s = float(sum(is_violated(s, slos) for s in seconds))
    slow_s = slow[1] - slow[0] + SLOW_TAIL_S if slow is not None else 0.0
    expected_s = quiet.share * max(0.0, run_s - slow_s) + (quiet.slow_violated_s if slow is not None else 0.0)
    return Tally(
        run_s,
        violated_s,
        max(0.0, violated_s - expected_s),
        float(sum(is_slow(s, slos) for s in seconds)),
        float(sum(is_behind(s, slos) for s in seconds)),
    )


def judge_target(
    target: Target, unlimited: Sequence[Tally], fixed: Sequence[Tally], controller: Sequence[Tally]
) -> list[Verdict]:
    """What the scenario promises, by the medians of all runs of each kind. `fixed`: the runs at the best fixed rate."""
    other = unlimited if target.against == "unlimited" else fixed
    took_s, against_s = median(t.seconds for t in controller), median(t.seconds for t in other)
    times = took_s / against_s
    each = _listed(t.seconds for t in controller)
    kept = times < target.most_times if target.strictly else times <= target.most_times
    bad = median(t.share for t in controller)
    harm = median(t.share for t in unlimited)
    is_harmless, wanted = harm <= target.bad_share_most, target.against == "unlimited"
    return [
        Verdict(
            kept,
            f"the controller took {took_s:.0f} s ({each}), {times:.2f} times the {against_s:.0f} s of {target.against}"
            f" ({'less than' if target.strictly else 'at most'} {target.most_times:g} times)",
        ),
        Verdict(
            bad <= target.bad_share_most,
            f"{bad:.1%} of its seconds were bad beyond no replay (at most {target.bad_share_most:.0%})",
        ),
        Verdict(
            is_harmless is wanted,
            f"unlimited {'is harmless' if is_harmless else 'hurts'}: {harm:.1%} of its seconds were bad beyond no replay"
            + (" (or this scenario shows nothing)" if is_harmless is not wanted else ""),
        ),
    ]


def _listed(seconds: Iterable[float]) -> str:
    """Single runs in their order: of several runs the later ones have a memory."""
    return ", ".join(f"{each:.0f}" for each in seconds)


def judge_cut(
    rates: Sequence[tuple[float, float]], cut: tuple[float, float] | None, floor_bytes_per_s: float
) -> Verdict:
    """`rates`: (time, granted bytes/s) over the copy. Without telemetry the rate must fall to the floor, and afterwards
    come back.
    """
    if cut is None:
        return Verdict(False, "telemetry was never cut: the run ended before")
    lowest = min((rate for at_s, rate in rates if cut[0] <= at_s < cut[1]), default=float("inf"))
    passed, told = _fell_and_came_back(rates, cut, lowest, floor_bytes_per_s)
    return Verdict(passed, f"without telemetry the rate fell {told}")


def _fell_and_came_back(
    rates: Sequence[tuple[float, float]], dark: tuple[float, float], lowest: float, floor_bytes_per_s: float
) -> tuple[bool, str]:
    """Whether the rate was down at the floor while nothing was known, and came back afterwards; and how far."""
    before = [rate for at_s, rate in rates if at_s < dark[0]]
    after = max((rate for at_s, rate in rates if at_s >= dark[1]), default=0.0)
    is_down, is_back = lowest <= FLOOR_SLACK * floor_bytes_per_s, after >= BACK_LEAST * floor_bytes_per_s
    return is_down and is_back, (
        f"from {before[-1] / 1e6 if before else 0:.1f} to {lowest / 1e6:.1f} MB/s (floor {floor_bytes_per_s / 1e6:.1f}),"
        f" and came back to {after / 1e6:.1f} MB/s"
    )


def judge_death(
    landed: Sequence[tuple[float, int]],
    dead: tuple[float, float] | None,
    rates: Sequence[tuple[float, float]],
    record_bytes: float,
    floor_bytes_per_s: float,
) -> Verdict:
    """`landed`: (time, records in the target) while no daemon ran, `rates` as in `judge_cut`. Lanes that hear nothing
    must not be quicker than the floor once their leases have run out; and the rate must come back with the next daemon.
    """
    if dead is None:
        return Verdict(False, "the daemon was never killed: the run ended before")
    last = [(at_s, count) for at_s, count in landed if at_s >= dead[1] - LAST_OF_DEATH * (dead[1] - dead[0])]
    if len(last) < 2:
        return Verdict(False, "what landed without a daemon was not seen often enough")
    lowest = (last[-1][1] - last[0][1]) * record_bytes / (last[-1][0] - last[0][0])
    passed, told = _fell_and_came_back(rates, dead, lowest, floor_bytes_per_s)
    return Verdict(passed, f"without a daemon for {dead[1] - dead[0]:.0f} s the copy went {told} with the next daemon")
