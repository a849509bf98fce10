"""The best fixed rate, by bisection: the highest rate that does no more harm than is allowed. Pure.

It needs nothing that the controller is not told, but runs of the same recovery, one for each rate that is tried: what
an operator would need who wants to set the rate by hand.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median, median_low

from recoveryd_sandbox.gameday.judge import Quiet

CLOSE_ENOUGH = 1.15  # a good rate and a bad one this near to each other end the search
LEAST_SHARE = 0.05  # of the unlimited rate: below it nothing is tried
RUNS_MOST = 16
# A run that did so much more harm than is allowed is bad, also if it takes somewhat longer than others tell.
GIVE_UP = 1.2

Trials = Mapping[int, Sequence[float]]  # by rate in bytes per second: the share of bad seconds of each of its runs


def bad_seconds_most(rate: int, took: Mapping[int, float], share_most: float, quiet: Quiet) -> float:
    """So many bad seconds a run at this rate may have, by how long runs at other rates took whole (seconds by bytes per
    second); infinite while there is none.
    """
    if not took:
        return math.inf
    expected_s = median(other * seconds for other, seconds in took.items()) / rate
    return GIVE_UP * (expected_s * (share_most + quiet.share) + quiet.slow_violated_s)


def next_rate(trials: Trials, unlimited: int, share_most: float, runs: int) -> int | None:
    """The rate to run next, in bytes per second; None when the best one is known by `runs` runs, or nothing more shall
    be tried.

    `trials` has the unlimited rate first, with the shares of the unlimited runs.
    """
    if sum(len(found) for rate, found in trials.items() if rate != unlimited) >= RUNS_MOST:
        return None
    best, bad = best_rate(trials, share_most), _lowest_bad(trials, share_most)
    if bad is None:
        return best if best is not None and len(trials[best]) < runs else None
    if best is None:
        lower = bad // 2
        return lower if lower >= LEAST_SHARE * unlimited else None
    if bad / best > CLOSE_ENOUGH:
        return int(math.sqrt(bad * best))
    return best if len(trials[best]) < runs else None


def best_rate(trials: Trials, share_most: float) -> int | None:
    """The highest good rate below every bad one; a rate is judged by the median of its runs, and one of which as many
    were good as bad counts as good until it is run again.
    """
    bad = _lowest_bad(trials, share_most)
    good = [rate for rate, shares in trials.items() if median_low(shares) <= share_most and (bad is None or rate < bad)]
    return max(good, default=None)


def _lowest_bad(trials: Trials, share_most: float) -> int | None:
    return min((rate for rate, shares in trials.items() if median_low(shares) > share_most), default=None)
