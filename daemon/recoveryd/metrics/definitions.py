"""Which metrics there are of the daemon itself. Those of a capability stand with it; `recoveryd.metrics.book` has all of them."""

from typing import Final

from recoveryd.kernel.metrics import Metric, MetricKind

_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
_COMMIT = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

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

CANARY_PRODUCE = Metric(
    "recoveryd_canary_produce_seconds",
    MetricKind.HISTOGRAM,
    "Time from producing a canary record to its acknowledgement by all in-sync replicas.",
    ("cluster",),
    buckets=_COMMIT,
)

JOURNAL_FAILING = Metric(
    "recoveryd_journal_failing_seconds",
    MetricKind.GAUGE,
    "Seconds since journal transactions fail; 0 while they succeed.",
)

METRICS: Final = (COMMANDS, DECISION_SECONDS, JOURNAL_COMMIT_SECONDS, LEADER, LOOP_AGE, CANARY_PRODUCE, JOURNAL_FAILING)
