"""The data of decisions and lag verdicts on the events topic: plain, bounded, without NaN or infinity (JSON has
neither).

Also which control decisions get an event: one every five seconds per domain would bury the important ones.
"""

from recoveryd.kernel.numbers import finite
from recoveryd.live.lag.verdicts import SEVERITY, GroupLag, LagVerdict
from recoveryd.live.law.types import ControlDecision

_LISTED_MOST = 20


def is_worth_telling(before: ControlDecision | None, after: ControlDecision) -> bool:
    """Whether a rate was published, or the rule, the verdict or the pause changed."""
    if before is None or after.publish:
        return True
    return (before.rule, before.verdict, before.pause) != (after.rule, after.verdict, after.pause)


def decision_evidence(decision: ControlDecision) -> dict[str, object]:
    """Everything a control decision was made from, worst signals first."""
    worst = sorted(decision.pressures, key=lambda p: -p.strain)[:_LISTED_MOST]
    return {
        "rule": int(decision.rule),
        "rule_name": decision.rule.name.lower(),
        "verdict": decision.verdict.value,
        "pressure": finite(decision.pressure),
        "pressures": [
            {
                "signal": p.name,
                "pressure": finite(p.share),
                "strain": finite(p.strain),
                "value_s": finite(p.value_s, 6),
                "age_ms": p.age_ms,
            }
            for p in worst
        ],
        "signals": len(decision.pressures),
        "rate_bytes_per_s": finite(decision.rate_bytes_per_s, 1),
        "wanted_bytes_per_s": finite(decision.wanted_bytes_per_s, 1),
        "budget_bytes_per_s": finite(decision.budget_bytes_per_s, 1),
        "ingress_bytes_per_s": finite(decision.ingress_bytes_per_s, 1),
        "achieved_bytes_per_s": finite(decision.achieved_bytes_per_s, 1),
        "loop_delay_ms": decision.loop_delay_ms,
        "oldest_age_ms": decision.oldest_age_ms,
        "pause": decision.pause,
        "why": decision.why,
    }


def lag_evidence(group: GroupLag) -> dict[str, object]:
    """A lag verdict with how many partitions share each verdict, and the worst of them."""
    counts: dict[LagVerdict, int] = {}
    for part in group.partitions:
        counts[part.verdict] = counts.get(part.verdict, 0) + 1
    worst = sorted(group.partitions, key=lambda p: (-SEVERITY[p.verdict], -(p.offset_lag or 0)))[:_LISTED_MOST]
    return {
        "verdict": group.verdict.value,
        "why": group.why,
        "coverage": finite(group.coverage),
        "sample_age_ms": group.sample_age_ms,
        "fill": finite(group.fill),
        "lag_records": group.offset_lag,
        "lag_seconds": finite(group.time_lag_s),
        "lost": group.lost,
        "verdicts": {verdict.value: n for verdict, n in counts.items()},
        "partitions": [
            {
                "partition": p.partition,
                "verdict": p.verdict.value,
                "rule": p.rule,
                "lag_records": p.offset_lag,
                "lag_seconds": finite(p.time_lag_s),
                "lost": p.lost,
            }
            for p in worst
        ],
    }
