"""The metrics about recoveries. `measures` and `measure_details` compute their values."""

from typing import Final

from recoveryd.kernel.metrics import Metric, counter, gauge

PROGRESS_RATIO = gauge(
    "recoveryd_recovery_progress_ratio",
    "Part of the range that is durable, or of a verification, that is read, 0 to 1.",
    "recovery",
)
ETA_SECONDS = gauge(
    "recoveryd_recovery_eta_seconds", "Seconds until the range is copied at the present rate.", "recovery"
)
ETA_BOUND = gauge(
    "recoveryd_recovery_eta_bound_seconds",
    "Forecast of the seconds until a recovery ends: lo, mid or hi; infinite when it never would.",
    "recovery bound",
)
SPEEDUP = gauge(
    "recoveryd_speedup_ratio",
    "Event time copied per second, in seconds: how many times faster than live a recovery is.",
    "recovery",
)
RETENTION_SLACK = gauge(
    "recoveryd_retention_slack_seconds",
    "Time until retention would reach a recovery's position; negative when it has.",
    "recovery",
)
RATE_REQUESTED = gauge(
    "recoveryd_rate_requested_bytes_per_second",
    "Rate that the command of a recovery asks for; absent while it asks for none.",
    "recovery",
)
RATE_LIMIT = gauge(
    "recoveryd_rate_limit_bytes_per_second", "Rate granted to a recovery; absent while it is unlimited.", "recovery"
)
RATE_ACHIEVED = gauge("recoveryd_rate_achieved_bytes_per_second", "Rate the lanes of a recovery report.", "recovery")
PROGRESS_AT = gauge(
    "recoveryd_recovery_progress_timestamp_seconds",
    "When a recovery last made something durable, or its verification last read or compared something.",
    "recovery",
)
STOP_CANDIDATE = gauge(
    "recoveryd_stop_candidate",
    "Evaluations in a row at which a following recovery was caught up; enough of them stop it.",
    "recovery",
)
AUTO_STOPS = counter(
    "recoveryd_auto_stops_total",
    "Recoveries that a policy ended by itself, as zero_lag does where all is copied, or paused (live_slo).",
    "reason",
)
RECORDS_LOST = counter(
    "recoveryd_records_lost_total", "Offsets of a source topic that vanished before they were copied.", "topic"
)
VERIFICATIONS = counter("recoveryd_verifications_total", "Verifications that ended.", "result")


# For the dashboard of a single recovery. `measure_details` bounds how many recoveries and partitions have these series.
RECOVERY_STATE = gauge("recoveryd_recovery_state", "1 for the present state of a recovery.", "recovery state")
RECOVERY_HELD = gauge(
    "recoveryd_recovery_held",
    "1 while the daemon keeps a recovery paused by itself, by why; absent while it does not.",
    "recovery reason",
)
RECOVERY_OFFSETS = gauge(
    "recoveryd_recovery_offsets",
    "Offsets of a recovery's range by what became of them; left are those not covered yet.",
    "recovery outcome",
)
PARTITION_POSITION = gauge(
    "recoveryd_partition_position_offset",
    "Offset up to which a source partition is durable in the target.",
    "recovery partition",
)
PARTITION_STOP = gauge(
    "recoveryd_partition_stop_offset",
    "Offset a source partition's copy stops before; the newest known end while the recovery follows.",
    "recovery partition",
)
PARTITIONS = gauge(
    "recoveryd_partitions", "Planned partitions of a recovery that has not ended, by state.", "recovery state"
)
LANES = gauge(
    "recoveryd_lanes",
    "Lanes of a recovery's present application by what they last reported; silent when that is long ago.",
    "recovery state",
)
ATTEMPT_NUMBER = gauge(
    "recoveryd_attempt_number", "Number of a recovery's newest application, counted from 1.", "recovery"
)
ATTEMPT_FAILURES = gauge(
    "recoveryd_attempt_failures", "Applications of a recovery in a row that ended without progress.", "recovery"
)
VERIFICATION_RECORDS = gauge(
    "recoveryd_verification_records",
    (
        "Records of the source range (source), records seen in the target (target), and those of them that "
        "belong to nobody's copy (extra), in the verification that ended."
    ),
    "recovery result side",
)
VERIFIED_RATIO = gauge(
    "recoveryd_verification_progress_ratio",
    "Part of source and target together that the verification has read, 0 to 1; absent before it reads.",
    "recovery",
)
STOP_TIME = gauge(
    "recoveryd_recovery_stop_timestamp_seconds",
    "When it was decided that a recovery ends, and why.",
    "recovery reason mode",
)
STOP_EVIDENCE = gauge(
    "recoveryd_recovery_stop_evidence", "A number that the rule saw which ended a recovery.", "recovery name"
)

METRICS: Final = tuple(found for found in tuple(globals().values()) if isinstance(found, Metric))
