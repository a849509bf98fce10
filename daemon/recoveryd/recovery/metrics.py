"""Which metrics there are of recoveries; from AUTO_STOPS on summed over all of them, before that of one each. What they say is told by `measures` and `measure_details`."""

from typing import Final

from recoveryd.kernel.metrics import Metric, MetricKind

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
STOP_CANDIDATE = Metric(
    "recoveryd_stop_candidate",
    MetricKind.GAUGE,
    "Evaluations in a row at which a following recovery was caught up; enough of them stop it.",
    ("recovery",),
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

METRICS: Final = (
    PROGRESS_RATIO,
    ETA_SECONDS,
    RATE_LIMIT,
    RATE_ACHIEVED,
    AUTO_STOPS,
    RECORDS_LOST,
    VERIFICATIONS,
    STOP_CANDIDATE,
    ETA_BOUND,
    SPEEDUP,
    RETENTION_SLACK,
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
)
