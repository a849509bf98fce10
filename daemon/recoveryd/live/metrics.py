"""The metrics of live traffic, of its readers and of the controllers. Their values are computed in `measures`.

A domain is a cluster's name, a signal the configured name of a protected signal.
"""

from typing import Final

from recoveryd.kernel.metrics import Metric, MetricKind

RECORDS = Metric(
    "recoveryd_records_total",
    MetricKind.COUNTER,
    "Records written to a topic: by replays (durable, counted from receipts), or by everybody else (live, from "
    "stable end offsets).",
    ("traffic", "topic"),
)
BYTES = Metric(
    "recoveryd_bytes_total",
    MetricKind.COUNTER,
    "Bytes of keys, values and headers written to a topic; for live traffic records times the mean size a replay "
    "measured, where one did.",
    ("traffic", "topic"),
)
LAG_RECORDS = Metric(
    "recoveryd_lag_records",
    MetricKind.GAUGE,
    "Records between a reader's durable position and its end; group is the recovery for replays and the consumer "
    "group for live readers.",
    ("traffic", "topic", "group"),
)
LAG_SECONDS = Metric(
    "recoveryd_lag_seconds",
    MetricKind.GAUGE,
    "Age of the oldest record a reader has still to read, worst partition, from sampled end offsets; absent while "
    "unknown.",
    ("traffic", "topic", "group"),
)


# Of the throttle controller and what it protects.
PRESSURE = Metric(
    "recoveryd_pressure",
    MetricKind.GAUGE,
    "How close a protected signal is to its SLO: 0 is live traffic alone, 1 is the SLO; absent while unknown.",
    ("domain", "signal"),
)
BUDGET = Metric(
    "recoveryd_budget_bytes_per_second",
    MetricKind.GAUGE,
    "Rate that all controlled recoveries of a domain may take together, as the controller wants it now.",
    ("domain",),
)
CONTROL_RULES = Metric(
    "recoveryd_control_rule_total",
    MetricKind.COUNTER,
    "Control decisions, by the rule that set the rate.",
    ("domain", "rule"),
)
SIGNAL_AGE = Metric(
    "recoveryd_signal_age_seconds",
    MetricKind.GAUGE,
    "Age of the newest sample of a protected signal; absent while it was never seen.",
    ("domain", "signal"),
)
LOOP_DELAY = Metric(
    "recoveryd_loop_delay_seconds",
    MetricKind.GAUGE,
    "How long after something happens the controller's answer to it can take effect.",
    ("domain",),
)
LAG_VERDICT = Metric(
    "recoveryd_lag_verdict",
    MetricKind.GAUGE,
    "1 for the present lag verdict of a consumer group on a topic, 0 for the others.",
    ("topic", "group", "verdict"),
)
COVERAGE_RATIO = Metric(
    "recoveryd_coverage_ratio",
    MetricKind.GAUGE,
    "Part of a topic's partitions of which a consumer group's lag is known and fresh.",
    ("topic", "group"),
)
LIVE_SLO = Metric(
    "recoveryd_live_slo_seconds",
    MetricKind.GAUGE,
    "The SLO of a protected signal, from the config.",
    ("domain", "signal"),
)
LIVE_SLO_VIOLATION = Metric(
    "recoveryd_live_slo_violation_seconds_total",
    MetricKind.COUNTER,
    "Seconds in which a protected signal was over its SLO; attributable = a replay ran above the floor in its domain.",
    ("domain", "signal", "attributable"),
)
SIGNALS_REJECTED = Metric(
    "recoveryd_signals_rejected_total",
    MetricKind.COUNTER,
    "Samples of live traffic that were not used, by reason.",
    ("reason",),
)

METRICS: Final = (
    RECORDS,
    BYTES,
    LAG_RECORDS,
    LAG_SECONDS,
    PRESSURE,
    BUDGET,
    CONTROL_RULES,
    SIGNAL_AGE,
    LOOP_DELAY,
    LAG_VERDICT,
    COVERAGE_RATIO,
    LIVE_SLO,
    LIVE_SLO_VIOLATION,
    SIGNALS_REJECTED,
)
