"""Every kind of event the daemon writes: its short name, what it says, and the fields of its data. A test compares this
with what the core makes.

The full CloudEvents type is `io.recoveryd.event.<kind>.v1`. Later releases may add fields to data, but never remove one
or change its meaning.
"""

from dataclasses import dataclass
from typing import Final

from recoveryd.kernel.states import State


@dataclass(frozen=True, slots=True)
class EventKind:
    """`fields`: those of its data that are always there; below, they are separated by blanks."""

    meaning: str
    fields: tuple[str, ...]


def _kind(meaning: str, fields: str) -> EventKind:
    return EventKind(meaning, tuple(fields.split()))


_ANSWER: Final = "code message hint verb control_offset"
_TRANSITION: Final = "from to why attempt"

ANSWERS: Final[dict[str, EventKind]] = {
    "command_accepted": _kind("The command is taken; the status record holds what follows.", _ANSWER),
    "command_rejected": _kind("The command is refused; nothing of it was done.", _ANSWER),
    "command_duplicate": _kind("The same id and source came before; nothing else happens.", _ANSWER),
    "command_expired": _kind("The command came, or was handled, after its expirytime.", _ANSWER),
}

_STATE_MEANINGS: Final = {
    State.PLANNED: "A dry run has its plan.",
    State.AWAITING_APPROVAL: "The plan waits for `approve`.",
    State.STARTING: "An application starts, or the next attempt waits for its time.",
    State.RUNNING: "The lanes copy.",
    State.PAUSING: "The lanes drain.",
    State.PAUSED: "No chunk is open; data has the exact positions.",
    State.STOPPING: "The lanes drain, to end.",
    State.VERIFYING: "An independent reader compares the target.",
    State.COMPLETED: "The range is done and verified.",
    State.STOPPED: "Ended early, with exact final positions: on purpose, or with a code that says what it lacks.",
    State.FAILED: "Ended with an error; `stop.reason` of the status record says which.",
    State.REJECTED: "Planning refused it, or an operator did.",
    State.EXPIRED: "Its approval came too late.",
    State.PLANNING: "The clusters are asked what the plan needs.",
}
TRANSITIONS: Final[dict[str, EventKind]] = {
    f"recovery_{state.value}": _kind(meaning, _TRANSITION) for state, meaning in _STATE_MEANINGS.items()
}

OTHERS: Final[dict[str, EventKind]] = {
    "control_unreadable": _kind("A control record went to the dead-letter topic.", "partition offset code error"),
    "control_cut_back": _kind(
        "The log of the control topic lost records: it ends at `end`, although everything before `position` was read. "
        "What comes from `end` on is read as new.",
        "end position why",
    ),
    "signal_refused": _kind("A signal is not valid and was not used.", "offset code message hint"),
    "recovery_requested": _kind("A replay was asked for; planning begins.", "why dry_run"),
    "recovery_approved": _kind("A plan was approved; it starts if the topics are still as planned.", "why"),
    "plan_revised": _kind(
        "Partitions were added to a followed source: the next attempt takes them along.", "why partitions lanes"
    ),
    "plan_noted": _kind("Something changed about the topics of a running recovery; a finding says it.", "code why"),
    "target_ready": _kind("The target topic exists.", "topic topic_id partitions"),
    "attempt_started": _kind("A Spark application is launched.", "attempt lanes"),
    "attempt_adopted": _kind("A new daemon took over a running application.", "attempt why"),
    "attempt_lost": _kind("An application ended without being told to.", "attempt why code failures retry_in_ms"),
    "auto_stop": _kind(
        "A policy ends a recovery by itself; `evidence` has the numbers it saw.", "reason mode evidence ends why"
    ),
    "auto_pause": _kind(
        "The daemon pauses a recovery by itself; `reason` is telemetry or live_slo (for the sake of live traffic), "
        "topic_held, or leaving (the daemon ends on purpose).",
        "reason evidence why",
    ),
    "throttle_decided": _kind(
        (
            "The controller of a cluster changed its mind: the numbers it saw, the rule by its number, what each "
            "recovery gets."
        ),
        "domain rule rule_name verdict pressure pressures signals "
        "rate_bytes_per_s wanted_bytes_per_s budget_bytes_per_s ingress_bytes_per_s achieved_bytes_per_s "
        "loop_delay_ms oldest_age_ms pause why recoveries",
    ),
    "lag_verdict_changed": _kind(
        "The lag of a watched consumer group on a topic is judged otherwise than before.",
        "cluster topic group was verdict why coverage sample_age_ms fill "
        "lag_records lag_seconds lost verdicts partitions",
    ),
    "forecast_changed": _kind(
        "Two forecasts in a row say something else than before; `from` and `to` are their verdicts.",
        "from to why suggestion evidence",
    ),
    "throttle_changed": _kind("The rate was set.", "max_bytes_per_s max_records_per_s why"),
    "effect_failed": _kind("Something the daemon wanted did not work.", "effect attempt code message retriable"),
    "quota_changed": _kind(
        "The brokers' quota of a recovery was set for the first time, or removed; between, it follows the rate.",
        "bytes_per_s why",
    ),
    "quota_refused": _kind("A cluster does not let the daemon set quotas; recoveries go on.", "message why"),
    "quotas_removed": _kind(
        "Quotas of recoveries that are over, left by a daemon that died, were removed.", "cluster recoveries"
    ),
    "watch_started": _kind("A watch looks at a group of others.", "why group topics webhook"),
    "watch_fulfilled": _kind(
        "The condition of a watch held; `evidence` has the numbers it saw.", "reason mode why evidence webhook"
    ),
    "schedule_started": _kind("A schedule waits for its first due time.", "why cron time_zone verb next_run"),
    "schedule_fired": _kind(
        "A due time has come: the command is journaled and sent. `missed_since` is the first due time that it makes up "
        "for, after a time without a daemon.",
        "due verb recovery command_id missed_since next_run why",
    ),
    "schedule_queued": _kind(
        "The last run still goes on: the run of this due time begins when it ends.", "due recovery next_run why"
    ),
    "schedule_skipped": _kind(
        "The last run still goes on: this due time is left out; `reason` is overrun.",
        "due recovery next_run reason why",
    ),
    "schedule_not_sent": _kind("The command of a run could not be sent; it is tried again.", "code message why"),
    "schedule_run_ended": _kind(
        "A run is over: `outcome` is the state in which it ended, or the answer to its command.",
        "due recovery outcome answer code why",
    ),
    "schedule_overrun_expected": _kind(
        "By how long the last runs took, the next one is not expected to be over before the one after it is due; with "
        "`fits` true, it is again.",
        "next_run fits expected_s interval_s overrun why",
    ),
    "schedule_stopped": _kind("A schedule was ended; a run that goes on is left alone.", "from to why"),
    "schedule_failed": _kind("A schedule cannot go on; `code` says why.", "from to why code"),
    "hold_started": _kind("Topics are held: nothing is written to or reset in them.", "why cluster topics reads"),
    "hold_narrowed": _kind("A hold lets go of some of its topics and goes on.", "why released topics"),
    "hold_acknowledged": _kind(
        "A member of a consumer group says how far it is in obeying a hold; once paused, with its positions.",
        "why group member client state positions",
    ),
    "hold_obeyed": _kind(
        "Every member of a consumer group that reads held topics has paused, and the broker knows of no other.",
        "why group members",
    ),
    "hold_topics_seen": _kind("Topics of a hold do not exist, or do so now.", "why missing"),
    "unit_retention_short": _kind(
        "An input of a unit is kept shorter than its retention objective.", "why objective_ms kept_ms"
    ),
    "unit_retention_met": _kind("Every input of a unit is kept long enough again.", "why objective_ms"),
    "units_read": _kind("The units of the config were read again and are in force.", "why added changed removed"),
    "units_refused": _kind(
        "The units of the config were read again and something is wrong: those of before stand.",
        "why code message hint",
    ),
    "leader_changed": _kind(
        "This daemon became the leader, or was and began anew: its clock was set, or it could decide nothing for a while.",
        "epoch recoveries control_topic_known why",
    ),
    "unit_stopped": _kind("The application that a watch was to stop is stopped.", "unit why"),
}

_WATCH_END: Final = "from to why reason mode evidence"
_WEBHOOK_END: Final = "webhook delivery status attempts message"
WATCH_ENDS: Final[dict[str, EventKind]] = {
    "watch_completed": _kind(
        "A watch is over: its condition held, and its webhook, if it has one, was told.", _WATCH_END
    ),
    "watch_stopped": _kind("An operator ended a watch.", _WATCH_END),
    "watch_failed": _kind("A watch ended unfulfilled, or its webhook was not reached; `code` says which.", _WATCH_END),
    "webhook_delivered": _kind("The webhook of a watch answered with success.", _WEBHOOK_END),
    "webhook_failed": _kind("The webhook of a watch was given up.", _WEBHOOK_END),
}

_MOVED: Final = "from to why verb"
WORKFLOWS: Final[dict[str, EventKind]] = {
    "workflow_requested": _kind("A workflow was asked for; planning begins.", "why verb unit group"),
    "workflow_planned": _kind("A dry run of a workflow has its plan.", _MOVED),
    "workflow_awaiting_approval": _kind("The plan of a workflow waits for `approve`.", _MOVED),
    "workflow_running": _kind("A workflow takes its steps.", _MOVED),
    "workflow_waiting": _kind("A workflow waits for what its status record says under `waiting_for`.", _MOVED),
    "workflow_pausing": _kind("A workflow was paused; what it is changing is heard of first.", _MOVED),
    "workflow_paused": _kind("A workflow takes no further step until it is resumed.", _MOVED),
    "workflow_stopping": _kind("A workflow was stopped; what it is changing or has begun is heard of first.", _MOVED),
    "workflow_closing": _kind("A workflow has ended, and what it changed for a time only is put back.", _MOVED),
    "workflow_completed": _kind("Every step of a workflow is done.", _MOVED),
    "workflow_stopped": _kind("A workflow was ended by an operator.", _MOVED),
    "workflow_failed": _kind("A step of a workflow failed; `code` says how.", _MOVED),
    "workflow_rejected": _kind("Planning refused a workflow, or an operator did.", _MOVED),
    "workflow_expired": _kind("The approval of a workflow came too late.", _MOVED),
    "workflow_rolled_back": _kind("What a workflow changed is as it was.", _MOVED),
    "step_started": _kind("A step of a workflow begins.", "step why"),
    "step_waiting": _kind("A step of a workflow waits.", "step why members"),
    "step_done": _kind("A step of a workflow is done; `evidence` has the numbers it rests on.", "step why evidence"),
    "runbook_escalated": _kind(
        "A runbook was ended and handed over; `report` has what is known.", "why code unit report"
    ),
    "step_failed": _kind("A step of a workflow failed.", "step why code"),
    "workflow_broken": _kind("A workflow stands still by a defect of recoveryd; others go on.", "why code"),
}

_HOLD_END: Final = "from to why cluster topics held_ms"
HOLD_ENDS: Final[dict[str, EventKind]] = {
    "hold_completed": _kind("A hold is released.", _HOLD_END),
    "hold_stopped": _kind("An operator stopped a hold, which ends it too.", _HOLD_END),
    "hold_expired": _kind("The time of a hold is over.", _HOLD_END),
}

EVENT_KINDS: Final[dict[str, EventKind]] = ANSWERS | TRANSITIONS | OTHERS | WATCH_ENDS | WORKFLOWS | HOLD_ENDS
