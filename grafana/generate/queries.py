"""Pieces of PromQL that several dashboards use. A standby exports no recoveries, so `max by` is needed only for the
seconds of a take-over.
"""

from collections.abc import Mapping, Sequence

from grafana.generate.parts import BAD, CLEAR, GOOD, LIVE, NEUTRAL, WARN, Look, link_to
from recoveryd.kernel.states import State
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.law.types import Rule

JOB = 'job=~"$job"'
OF_RECOVERIES = 'kind=~"replay|verification"'  # schedules, holds, watches and workflows are counted as well
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
# From what is told last to what is told first where several decided at once: waiting comes last, then severity as the
# rules' numbers say.
_WAITING = (Rule.GATE, Rule.PROTECT, Rule.PUBLISH)
_RULE_COLORS: Mapping[Rule, str] = {
    Rule.STALE: "purple", Rule.GATE: "super-light-blue", Rule.GUARD: BAD, Rule.SLOW_START: "light-green",
    Rule.TRACK: GOOD, Rule.NO_WINDUP: LIVE, Rule.PUBLISH: "light-blue", Rule.PROTECT: NEUTRAL,
}  # fmt: skip
RULES: tuple[Rule, ...] = (*_WAITING, *sorted(set(Rule) - set(_WAITING), reverse=True))
RULES_SHOWN: Mapping[str, tuple[str, str]] = {"0": ("no decision", CLEAR)} | {
    str(i): (rule.name.lower().replace("_", " "), _RULE_COLORS.get(rule, "yellow")) for i, rule in enumerate(RULES, 1)
}
ALERTS_SHOWN = {"1": ("warning", WARN), "2": ("critical", BAD)}

# The labels of a link say which recovery: `__field` in a timeline, `__value` in a table's cell.
TO_RECOVERY_OF_SPAN = link_to("Show the recovery", "recoveryd-recovery", recovery="${__field.labels.recovery}")
TO_RECOVERY_OF_ROW = link_to("Show the recovery", "recoveryd-recovery", recovery="${__value.text}")

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


def rule_of(matchers: str) -> str:
    """The rule of the controller that decided lately in each domain, as a number; see `RULES_SHOWN`."""
    decided = [
        f'{i} * (increase(recoveryd_control_rule_total{{{matchers}, rule="{rule.name.lower()}"}}[$__rate_interval]) > '
        f"bool 0)"
        for i, rule in enumerate(RULES, 1)
    ]
    return f"max by (domain) ({' or '.join(decided)})"


def alert_of() -> str:
    """The severity of each alert that fires; see `ALERTS_SHOWN`. Alerts about what is absent have no job."""
    firing = 'alertname=~"Recoveryd.*", alertstate="firing", job=~"$job|"'
    return (
        f'max by (alertname) ((2 * ALERTS{{{firing}, severity="critical"}}) or ALERTS{{{firing}, severity="warning"}})'
    )


def highest(metric: str, matchers: str) -> str:
    """The highest of the values since the last step: ages and lags grow from one sample to the next, so single looks at
    them would draw teeth. Nothing where nothing is known now.
    """
    return f"(max_over_time({metric}{{{matchers}}}[$__rate_interval]) and {metric}{{{matchers}}})"


def shown(colors: Mapping[State, str] | Mapping[LagVerdict, str]) -> dict[str, tuple[str, str]]:
    """Text and colour for the numbers of `coded`."""
    return {str(i): (value.value.replace("_", " "), color) for i, (value, color) in enumerate(colors.items(), 1)}


def state_of(matchers: str) -> str:
    """State of each recovery as a number; see `shown(STATE_COLORS)`."""
    return coded("recoveryd_recovery_state", matchers, "state", [s.value for s in STATE_COLORS], "recovery")


def state_changes(matchers: str) -> str:
    """The state of each recovery that is in another one than it was last seen in, half a minute ago or up to ten
    minutes before that. So a daemon that was away, or a scrape that failed, makes nothing look changed. A recovery has
    a series of its present state alone, so the one that was there last was its state.
    """
    state = f"recoveryd_recovery_state{{{matchers}}}"
    seen = f"max by (recovery, state) (max_over_time(timestamp({state})[10m:15s] offset 30s))"
    before = f"{seen} == on (recovery) group_left () max by (recovery) ({seen})"
    return f"max by (recovery, state) ({state}) unless ({before})"


def verdict_of(matchers: str) -> str:
    """Lag verdict of each group on each topic as a number; see `shown(VERDICT_COLORS)`."""
    return coded("recoveryd_lag_verdict", matchers, "verdict", [v.value for v in VERDICT_COLORS], "topic, group")


def quantile(q: float, histogram: str, matchers: str, by: str = "le") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({histogram}_bucket{{{matchers}}}[$__rate_interval])))"
