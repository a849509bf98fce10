"""The one catalogue of metrics: names, kinds, labels and help. Dashboards, docs and the exporter take them from here.

Base units only (seconds, bytes, records). A label value is a member of a closed set, the name of a topic in play, a consumer group or a recovery id;
series that name a recovery go one hour after it ended. What the values are is told by `daemon.core.observe`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` in the order in which samples give their values; `buckets` are upper bounds, of histograms only."""

    name: str
    kind: Kind
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
    Kind.COUNTER,
    "Records written to a topic: by replays (durable, counted from receipts), or by everybody else (live, from stable end offsets).",
    ("traffic", "topic"),
)
BYTES = Metric(
    "recoveryd_bytes_total",
    Kind.COUNTER,
    "Bytes of keys, values and headers written to a topic; for live traffic records times the mean size a replay measured, where one did.",
    ("traffic", "topic"),
)
LAG_RECORDS = Metric(
    "recoveryd_lag_records",
    Kind.GAUGE,
    "Records between a reader's durable position and its end; group is the recovery for replays and the consumer group for live readers.",
    ("traffic", "topic", "group"),
)
LAG_SECONDS = Metric(
    "recoveryd_lag_seconds",
    Kind.GAUGE,
    "Age of the oldest record a reader has still to read, worst partition, from sampled end offsets; absent while unknown.",
    ("traffic", "topic", "group"),
)
RECOVERIES = Metric("recoveryd_recoveries", Kind.GAUGE, "Recoveries the daemon knows, by state.", ("kind", "state"))
PROGRESS_RATIO = Metric(
    "recoveryd_recovery_progress_ratio", Kind.GAUGE, "Part of the range that is durable, 0 to 1.", ("recovery",)
)
ETA_SECONDS = Metric(
    "recoveryd_recovery_eta_seconds",
    Kind.GAUGE,
    "Seconds until the range is copied at the present rate.",
    ("recovery",),
)
RATE_LIMIT = Metric(
    "recoveryd_rate_limit_bytes_per_second",
    Kind.GAUGE,
    "Rate granted to a recovery; absent while it is unlimited.",
    ("recovery",),
)
RATE_ACHIEVED = Metric(
    "recoveryd_rate_achieved_bytes_per_second", Kind.GAUGE, "Rate the lanes of a recovery report.", ("recovery",)
)
COMMANDS = Metric("recoveryd_commands_total", Kind.COUNTER, "Answers given to control records.", ("verb", "answer"))
DECISION_SECONDS = Metric("recoveryd_decision_seconds", Kind.HISTOGRAM, "Time of one pure decision.", buckets=_FAST)
JOURNAL_COMMIT_SECONDS = Metric(
    "recoveryd_journal_commit_seconds", Kind.HISTOGRAM, "Time of one journal transaction.", buckets=_COMMIT
)
LEADER = Metric("recoveryd_leader", Kind.GAUGE, "1 while this daemon leads, 0 on a standby.")
LOOP_AGE = Metric("recoveryd_loop_age_seconds", Kind.GAUGE, "Seconds since the event loop last turned.")
AUTO_STOPS = Metric(
    "recoveryd_auto_stops_total", Kind.COUNTER, "Recoveries that a policy ended by itself.", ("reason",)
)
RECORDS_LOST = Metric(
    "recoveryd_records_lost_total",
    Kind.COUNTER,
    "Offsets of a source topic that vanished before they were copied.",
    ("topic",),
)
VERIFICATIONS = Metric("recoveryd_verifications_total", Kind.COUNTER, "Verifications that ended.", ("result",))

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
)
