"""Pieces of PromQL that several dashboards use. A standby exports no recoveries, so `max by` is needed only for the
seconds of a take-over.
"""

from collections.abc import Mapping, Sequence

from grafana.generate.parts import BAD, GOOD, LIVE, NEUTRAL, WARN, Look
from recoveryd.kernel.states import State
from recoveryd.live.lag.verdicts import LagVerdict

JOB = 'job=~"$job"'
AT_WORK = "starting|running|pausing|stopping|verifying"

STATE_COLORS: Mapping[State, str] = {
    State.REQUESTED: "super-light-blue", State.PLANNING: "super-light-blue", State.PLANNED: NEUTRAL,
    State.AWAITING_APPROVAL: "yellow", State.STARTING: "light-blue", State.RUNNING: LIVE,
    State.PAUSING: "light-orange", State.PAUSED: WARN, State.STOPPING: "light-purple", State.VERIFYING: "purple",
    State.COMPLETED: GOOD, State.STOPPED: "semi-dark-yellow", State.FAILED: BAD, State.REJECTED: "dark-red",
    State.EXPIRED: NEUTRAL,
}  # fmt: skip
VERDICT_COLORS: Mapping[LagVerdict, str] = {
    LagVerdict.OK: GOOD, LagVerdict.IDLE: "light-green", LagVerdict.CATCHING_UP: LIVE, LagVerdict.UNKNOWN: NEUTRAL,
    LagVerdict.FALLING_BEHIND: "yellow", LagVerdict.STALLED: WARN, LagVerdict.STOPPED: WARN,
    LagVerdict.REWOUND: "purple",
    LagVerdict.BLOCKED_BY_TXN: "dark-orange", LagVerdict.INVALID: "dark-red", LagVerdict.DATA_LOST: BAD,
}  # fmt: skip


STATE_LOOKS = tuple(Look(f"^{state.value}$", color) for state, color in STATE_COLORS.items())
WORK_LOOKS = (  # of partitions and lanes
    Look("^copying$", LIVE), Look("^done$", GOOD), Look("^(paused|pausing|leaseless)$", WARN),
    Look("^(blocked|silent)$", BAD),
    Look("^(waiting|starting|draining)$", NEUTRAL),
)  # fmt: skip


def coded(metric: str, matchers: str, label: str, values: Sequence[str], by: str) -> str:
    """One number per `by`: the place in `values`, from 1, of the `label` whose series is 1. So one row of a state
    timeline can show many states.
    """
    terms = [f'{i} * ({metric}{{{matchers}, {label}="{value}"}} == 1)' for i, value in enumerate(values, 1)]
    return f"max by ({by}) ({' or '.join(terms)})"


def shown(colors: Mapping[State, str] | Mapping[LagVerdict, str]) -> dict[str, tuple[str, str]]:
    """Text and colour for the numbers of `coded`."""
    return {str(i): (value.value.replace("_", " "), color) for i, (value, color) in enumerate(colors.items(), 1)}


def state_of(matchers: str) -> str:
    """State of each recovery as a number; see `shown(STATE_COLORS)`."""
    return coded("recoveryd_recovery_state", matchers, "state", [s.value for s in STATE_COLORS], "recovery")


def verdict_of(matchers: str) -> str:
    """Lag verdict of each group on each topic as a number; see `shown(VERDICT_COLORS)`."""
    return coded("recoveryd_lag_verdict", matchers, "verdict", [v.value for v in VERDICT_COLORS], "topic, group")


def quantile(q: float, histogram: str, matchers: str, by: str = "le") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({histogram}_bucket{{{matchers}}}[$__rate_interval])))"
