"""The one catalogue of metrics: names, kinds, labels and help. Dashboards, docs and the exporter take them from here.

Base units only (seconds, bytes, records). A label value is a member of a closed set, the name of a topic in play, a consumer group or a recovery id;
series that name a recovery go one hour after it ended. What the values are is told by `recoveryd.metrics.daemon`.
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` in the order in which samples give their values; `buckets` are upper bounds, of histograms only."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One value: what a gauge is now, or what a counter grows by. `labels` are the values for `metric.labels`."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
_COMMIT = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

RECORDS = Metric(
    "recoveryd_records_total",
    MetricKind.COUNTER,
    "Records written to a topic: by replays (durable, counted from receipts), or by everybody else (live, from stable end offsets).",
    ("traffic", "topic"),
)
BYTES = Metric(
    "recoveryd_bytes_total",
    MetricKind.COUNTER,
    "Bytes of keys, values and headers written to a topic; for live traffic records times the mean size a replay measured, where one did.",
    ("traffic", "topic"),
)
LAG_RECORDS = Metric(
    "recoveryd_lag_records",
    MetricKind.GAUGE,
    "Records between a reader's durable position and its end; group is the recovery for replays and the consumer group for live readers.",
    ("traffic", "topic", "group"),
)
LAG_SECONDS = Metric(
    "recoveryd_lag_seconds",
    MetricKind.GAUGE,
    "Age of the oldest record a reader has still to read, worst partition, from sampled end offsets; absent while unknown.",
    ("traffic", "topic", "group"),
)
RECOVERIES = Metric(
    "recoveryd_recoveries", MetricKind.GAUGE, "Recoveries the daemon knows, by state.", ("kind", "state")
)
PROGRESS_RATIO = Metric(
    "recoveryd_recovery_progress_ratio",
    MetricKind.GAUGE,
    "Part of the range that is durable, or of a verification, that is read, 0 to 1.",
    ("recovery",),
)
ETA_SECONDS = Metric(
    "recoveryd_recovery_eta_seconds",
    MetricKind.GAUGE,
    "Seconds until the range is copied at the present rate.",
    ("recovery",),
)
RATE_LIMIT = Metric(
    "recoveryd_rate_limit_bytes_per_second",
    MetricKind.GAUGE,
    "Rate granted to a recovery; absent while it is unlimited.",
    ("recovery",),
)
RATE_ACHIEVED = Metric(
    "recoveryd_rate_achieved_bytes_per_second", MetricKind.GAUGE, "Rate the lanes of a recovery report.", ("recovery",)
)
COMMANDS = Metric(
    "recoveryd_commands_total", MetricKind.COUNTER, "Answers given to control records.", ("verb", "answer")
)
DECISION_SECONDS = Metric(
    "recoveryd_decision_seconds", MetricKind.HISTOGRAM, "Time of one pure decision.", buckets=_FAST
)
JOURNAL_COMMIT_SECONDS = Metric(
    "recoveryd_journal_commit_seconds", MetricKind.HISTOGRAM, "Time of one journal transaction.", buckets=_COMMIT
)
LEADER = Metric("recoveryd_leader", MetricKind.GAUGE, "1 while this daemon leads, 0 on a standby.")
LOOP_AGE = Metric("recoveryd_loop_age_seconds", MetricKind.GAUGE, "Seconds since the event loop last turned.")
AUTO_STOPS = Metric(
    "recoveryd_auto_stops_total", MetricKind.COUNTER, "Recoveries that a policy ended by itself.", ("reason",)
)
RECORDS_LOST = Metric(
    "recoveryd_records_lost_total",
    MetricKind.COUNTER,
    "Offsets of a source topic that vanished before they were copied.",
    ("topic",),
)
VERIFICATIONS = Metric("recoveryd_verifications_total", MetricKind.COUNTER, "Verifications that ended.", ("result",))

# Of the throttle controller and what it protects. A domain is a cluster's name, a signal the name of a protected signal of the config.
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
STOP_CANDIDATE = Metric(
    "recoveryd_stop_candidate",
    MetricKind.GAUGE,
    "Evaluations in a row at which a following recovery was caught up; enough of them stop it.",
    ("recovery",),
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
ETA_BOUND = Metric(
    "recoveryd_recovery_eta_bound_seconds",
    MetricKind.GAUGE,
    "Forecast of the seconds until a recovery ends: lo, mid or hi; infinite when it never would.",
    ("recovery", "bound"),
)
SPEEDUP = Metric(
    "recoveryd_speedup_ratio",
    MetricKind.GAUGE,
    "Event time copied per second, in seconds: how many times faster than live a recovery is.",
    ("recovery",),
)
RETENTION_SLACK = Metric(
    "recoveryd_retention_slack_seconds",
    MetricKind.GAUGE,
    "Time until retention would reach a recovery's position; negative when it has.",
    ("recovery",),
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
CANARY_PRODUCE = Metric(
    "recoveryd_canary_produce_seconds",
    MetricKind.HISTOGRAM,
    "Time from producing a canary record to its acknowledgement by all in-sync replicas.",
    ("cluster",),
    buckets=_COMMIT,
)
RATE_REQUESTED = Metric(
    "recoveryd_rate_requested_bytes_per_second",
    MetricKind.GAUGE,
    "Rate that the command of a recovery asks for; absent while it asks for none.",
    ("recovery",),
)

# Of one recovery, for the dashboard that shows it alone. How many recoveries and partitions have them is bounded by `observe_details`.
RECOVERY_STATE = Metric(
    "recoveryd_recovery_state", MetricKind.GAUGE, "1 for the present state of a recovery.", ("recovery", "state")
)
RECOVERY_OFFSETS = Metric(
    "recoveryd_recovery_offsets",
    MetricKind.GAUGE,
    "Offsets of a recovery's range by what became of them; left are those not covered yet.",
    ("recovery", "outcome"),
)
PARTITION_POSITION = Metric(
    "recoveryd_partition_position_offset",
    MetricKind.GAUGE,
    "Offset up to which a source partition is durable in the target.",
    ("recovery", "partition"),
)
PARTITION_STOP = Metric(
    "recoveryd_partition_stop_offset",
    MetricKind.GAUGE,
    "Offset a source partition's copy stops before; the newest known end while the recovery follows.",
    ("recovery", "partition"),
)
PARTITIONS = Metric(
    "recoveryd_partitions",
    MetricKind.GAUGE,
    "Planned partitions of a recovery that has not ended, by state.",
    ("recovery", "state"),
)
LANES = Metric(
    "recoveryd_lanes",
    MetricKind.GAUGE,
    "Lanes of a recovery's present application by what they last reported; silent when that is long ago.",
    ("recovery", "state"),
)
ATTEMPT_NUMBER = Metric(
    "recoveryd_attempt_number",
    MetricKind.GAUGE,
    "Number of a recovery's newest application, counted from 1.",
    ("recovery",),
)
ATTEMPT_FAILURES = Metric(
    "recoveryd_attempt_failures",
    MetricKind.GAUGE,
    "Applications of a recovery in a row that ended without progress.",
    ("recovery",),
)
VERIFICATION_RECORDS = Metric(
    "recoveryd_verification_records",
    MetricKind.GAUGE,
    "Records of the source range (source), records seen in the target (target), and those of them that belong to nobody's copy (extra), in the verification that ended.",
    ("recovery", "result", "side"),
)
VERIFIED_RATIO = Metric(
    "recoveryd_verification_progress_ratio",
    MetricKind.GAUGE,
    "Part of source and target together that the verification has read, 0 to 1; absent before it reads.",
    ("recovery",),
)
STOP_TIME = Metric(
    "recoveryd_recovery_stop_timestamp_seconds",
    MetricKind.GAUGE,
    "When it was decided that a recovery ends, and why.",
    ("recovery", "reason", "mode"),
)
STOP_EVIDENCE = Metric(
    "recoveryd_recovery_stop_evidence",
    MetricKind.GAUGE,
    "A number that the rule saw which ended a recovery.",
    ("recovery", "name"),
)
JOURNAL_FAILING = Metric(
    "recoveryd_journal_failing_seconds",
    MetricKind.GAUGE,
    "Seconds since journal transactions fail; 0 while they succeed.",
)

METRICS: tuple[Metric, ...] = (
    RECORDS,
    BYTES,
    LAG_RECORDS,
    LAG_SECONDS,
    RECOVERIES,
    PROGRESS_RATIO,
    ETA_SECONDS,
    RATE_LIMIT,
    RATE_ACHIEVED,
    COMMANDS,
    DECISION_SECONDS,
    JOURNAL_COMMIT_SECONDS,
    LEADER,
    LOOP_AGE,
    AUTO_STOPS,
    RECORDS_LOST,
    VERIFICATIONS,
    PRESSURE,
    BUDGET,
    CONTROL_RULES,
    SIGNAL_AGE,
    LOOP_DELAY,
    STOP_CANDIDATE,
    LAG_VERDICT,
    COVERAGE_RATIO,
    ETA_BOUND,
    SPEEDUP,
    RETENTION_SLACK,
    LIVE_SLO,
    LIVE_SLO_VIOLATION,
    SIGNALS_REJECTED,
    CANARY_PRODUCE,
    RATE_REQUESTED,
    RECOVERY_STATE,
    RECOVERY_OFFSETS,
    PARTITION_POSITION,
    PARTITION_STOP,
    PARTITIONS,
    LANES,
    ATTEMPT_NUMBER,
    ATTEMPT_FAILURES,
    VERIFICATION_RECORDS,
    VERIFIED_RATIO,
    STOP_TIME,
    STOP_EVIDENCE,
    JOURNAL_FAILING,
)
