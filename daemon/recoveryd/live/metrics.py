"""The metrics of live traffic, of its readers and of the controllers. Their values are computed in `measures`.

A domain is a cluster's name, a signal the configured name of a protected signal.
"""

from typing import Final

from recoveryd.kernel.metrics import Metric, counter, gauge

RECORDS = counter(
    "recoveryd_records_total",
    "Records written to a topic: by replays (durable, counted from receipts), or by everybody else (live, from "
    "stable end offsets).",
    "traffic topic",
)
BYTES = counter(
    "recoveryd_bytes_total",
    "Bytes of keys, values and headers written to a topic; for live traffic records times the mean size a replay "
    "measured, where one did.",
    "traffic topic",
)
LAG_RECORDS = gauge(
    "recoveryd_lag_records",
    "Records between a reader's durable position and its end; group is the recovery for replays and the consumer "
    "group for live readers.",
    "traffic topic group",
)
LAG_SECONDS = gauge(
    "recoveryd_lag_seconds",
    "Age of the oldest record a reader has still to read, worst partition, from sampled end offsets; absent while "
    "unknown.",
    "traffic topic group",
)


# Of the throttle controller and what it protects.
PRESSURE = gauge(
    "recoveryd_pressure",
    "Share of its SLO that a protected signal uses: 1 is the SLO; absent while unknown.",
    "domain signal",
)
BUDGET = gauge(
    "recoveryd_budget_bytes_per_second",
    "Rate that all controlled recoveries of a domain may take together, as the controller wants it now.",
    "domain",
)
CONTROL_RULES = counter(
    "recoveryd_control_rule_total", "Control decisions, by the rule that set the rate.", "domain rule"
)
SIGNAL_AGE = gauge(
    "recoveryd_signal_age_seconds",
    "Age of the newest sample of a protected signal; absent while it was never seen.",
    "domain signal",
)
SIGNAL_STALE_AFTER = gauge(
    "recoveryd_signal_stale_after_seconds",
    "Age beyond which the newest sample of a protected signal is too old for the controller; absent while it was never "
    "seen.",
    "domain signal",
)
SIGNAL_LEFT_OUT = gauge(
    "recoveryd_signal_left_out",
    "1 while a protected signal does not count because a workflow keeps what is measured stopped, else 0.",
    "domain signal",
)
LOOP_DELAY = gauge(
    "recoveryd_loop_delay_seconds",
    "How long after something happens the controller's answer to it can take effect.",
    "domain",
)
LAG_VERDICT = gauge(
    "recoveryd_lag_verdict",
    "1 for the present lag verdict of a consumer group on a topic, 0 for the others.",
    "topic group verdict",
)
COVERAGE_RATIO = gauge(
    "recoveryd_coverage_ratio",
    "Part of a topic's partitions of which a consumer group's lag is known and fresh.",
    "topic group",
)
LIVE_SLO = gauge("recoveryd_live_slo_seconds", "The SLO of a protected signal, from the config.", "domain signal")
LIVE_SLO_VIOLATION = counter(
    "recoveryd_live_slo_violation_seconds_total",
    "Seconds in which a protected signal was over its SLO; attributable = a replay ran above the floor in its domain.",
    "domain signal attributable",
)
SIGNALS_REJECTED = counter(
    "recoveryd_signals_rejected_total", "Samples of live traffic that were not used, by reason.", "reason"
)

METRICS: Final = tuple(found for found in tuple(globals().values()) if isinstance(found, Metric))
