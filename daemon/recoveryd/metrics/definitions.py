"""The metrics of the daemon itself. Each capability has its own in its folder; `recoveryd.metrics.book` has all of
them.
"""

from typing import Final

from recoveryd.kernel.metrics import counter, gauge, histogram

_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
_COMMIT = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_PRODUCE = tuple(sorted({*_COMMIT, 0.15, 0.2, 0.3, 0.4}))  # fine around the usual SLO, 200 ms

COMMANDS = counter("recoveryd_commands_total", "Answers given to control records.", "verb answer")
DECISION_SECONDS = histogram("recoveryd_decision_seconds", "Time of one pure decision.", _FAST)
JOURNAL_COMMIT_SECONDS = histogram("recoveryd_journal_commit_seconds", "Time of one journal transaction.", _COMMIT)
LEADER = gauge("recoveryd_leader", "1 while this daemon leads, 0 on a standby.")
LOOP_AGE = gauge("recoveryd_loop_age_seconds", "Seconds since the event loop last turned.")

CONTROL_UNREAD = gauge(
    "recoveryd_control_unread_offsets",
    "Offsets of the control topic behind what the leader has taken, as it saw every ten seconds. Markers of transactions "
    "count until it has looked at them.",
)

CANARY_PRODUCE = histogram(
    "recoveryd_canary_produce_seconds",
    "Time from producing a canary record to its acknowledgement by all in-sync replicas. One that waits counts with its "
    "age, each time that another one would have been sent.",
    _PRODUCE,
    "cluster",
)

JOURNAL_FAILING = gauge(
    "recoveryd_journal_failing_seconds",
    "Seconds since journal transactions fail or get no answer; 0 while they succeed, and in the first 5 s of each.",
)

SECRET_REFUSED = gauge(
    "recoveryd_secret_refused",
    "1 while what the files of a secret hold now cannot be used, and the one of before is.",
    "secret",
)

WEBHOOK_TRANSITIONS = counter(
    "recoveryd_webhook_transitions_total",
    "Transitions that webhooks were to hear of: delivered, failed, or left_out because too many waited or the daemon ended.",
    "webhook outcome",
)
WEBHOOK_WAITING = gauge(
    "recoveryd_webhook_transitions_waiting", "Transitions that a webhook has not heard of yet.", "webhook"
)

METRICS: Final = (
    COMMANDS,
    DECISION_SECONDS,
    JOURNAL_COMMIT_SECONDS,
    LEADER,
    LOOP_AGE,
    CONTROL_UNREAD,
    CANARY_PRODUCE,
    JOURNAL_FAILING,
    SECRET_REFUSED,
    WEBHOOK_TRANSITIONS,
    WEBHOOK_WAITING,
)
