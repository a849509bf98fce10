"""The score of a run: the harm that it caused, and how long it took compared with the oracle.

A second is an attributable violation when an SLO is broken with the replay and not in the same world without it. A
second in which several SLOs are broken counts once.
"""

from dataclasses import dataclass

from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.run import Trace


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one run. Violations are parts of the replay's time (they may outlast it, so can exceed 1); `slow` =
    time / oracle's time. `finished` is also said of a run in a world in which the oracle does not finish either.
    """

    violation: float
    violation_latency: float
    violation_lag: float
    slow: float
    most_lag_s: float
    excess_lag_s2: float
    updates_per_h: float
    finished: bool


def judge(trace: Trace, alone: Trace, oracle: Trace, params: ModelParams) -> Score:
    """Compare a run with the same world without a replay, and with the oracle's run."""
    seconds = min(len(trace.latency_s), len(alone.latency_s))
    late, lagging, either = 0, 0, 0
    for at in range(seconds):
        latency = trace.latency_s[at] > params.slo_latency_s >= alone.latency_s[at]
        lag = trace.lag_s[at] > params.slo_lag_s >= alone.lag_s[at]
        late += latency
        lagging += lag
        either += latency or lag
    took_s = trace.finished_s or params.horizon_s
    best_s = oracle.finished_s or params.horizon_s
    excess = sum(max(0.0, lag - params.slo_lag_s) for lag in trace.lag_s[:seconds])
    return Score(
        violation=either / took_s,
        violation_latency=late / took_s,
        violation_lag=lagging / took_s,
        slow=took_s / best_s,
        most_lag_s=max(trace.lag_s, default=0.0),
        excess_lag_s2=excess,
        updates_per_h=3_600 * trace.updates / took_s,
        finished=trace.finished_s is not None or oracle.finished_s is None,
    )
