"""JSON Schemas of status records, derived from the same dataclasses as the records, with the moves of fields of each
`wire/status.py`, and the meaning of the fields.
"""

from typing import Any, Final

from recoveryd.forecast.outlook import Outlook
from recoveryd.holds.model import KIND as HOLD_KIND
from recoveryd.holds.model import Hold
from recoveryd.holds.wire.status import OWN
from recoveryd.holds.wire.status import PUBLIC as HOLD_PUBLIC
from recoveryd.kernel.state import DaemonRecord
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.wire.status import BESIDE_LIMITS, PUBLIC, PUBLIC_PARTITION, PUBLIC_PLAN
from recoveryd.schedules.model import KIND as SCHEDULE
from recoveryd.schedules.model import Schedule
from recoveryd.schedules.wire import status as schedule_status
from recoveryd.watches.model import KIND, Watch
from recoveryd.watches.wire.status import PARTS
from recoveryd.watches.wire.status import PUBLIC as WATCH_PUBLIC
from recoveryd.wire.nouns import NounForm
from recoveryd.wire.status_topic import DAEMON_KEY, DAEMON_PUBLIC
from recoveryd.workflows.model.workflow import KIND as WORKFLOW
from recoveryd.workflows.model.workflow import Workflow
from recoveryd.workflows.wire.status import PUBLIC as WORKFLOW_PUBLIC
from tools.noun_schemas import INTERNAL, NATURAL, Schema, Told, finished, list_of, make_object, only, ref

_STOP_WORDS: Final[Told] = {
    "Stop.mode": {"enum": ["bounded", "caught_up"], "description": "of zero_lag"},
    "Stop.reason": "`live_slo` never stands here, since it pauses: it is in `why` and in the event `auto_pause`",
    "Stop.evidence": "the numbers the rule saw",
}
_RECOVERY_WORDS: Final[Told] = {
    **_STOP_WORDS,
    "Recovery.why": "one sentence, always current",
    "Recovery.attempt": "number of the Spark application, 0 before the first",
    "Recovery.error_code": "of the catalogue, when it failed, was refused, or was stopped and nobody wanted that",
    "PlannedPartition.start": "first offset",
    "PlannedPartition.stop": "first offset not copied; null while following the live head",
    "PlannedPartition.at_end": "the wanted time lies after the last record",
    "PlannedTopic.topic_id": "empty while the target is still to be created",
    "PlannedTopic.ranges": "of a verification: the pinned part of the target",
    "ComparedRange.start": "first offset",
    "ComparedRange.stop": "first offset not compared",
    "Plan.eta_seconds": "null = never",
    "Plan.impact": "who reads the target, as its cluster, Kafka Connect and the config tell",
    "Affected.kind": {"enum": ["group", "sink"]},
    "Affected.name": "of the group, or of the connector",
    "Affected.unit": "null = it is none of the config",
    "Affected.behaviour": {
        "enum": ["idempotent", "transactional", "append_only", "unknown"],
        "description": "what a record that comes twice does to what it writes; unknown = nobody has said it",
    },
    "Affected.seen_by": "cluster, connect, config",
    "Plan.budget": "what it would get if it began now; null = planned by a release that did not say it",
    "Plan.traffic": "how metrics count what it writes; null = nothing is written, or planned by a release that did not say it",
    "PlannedBudget.mode": {"enum": ["unlimited", "fixed", "controller"], "description": "the one in force"},
    "PlannedBudget.bytes_per_s": "null = unlimited",
    "PlannedBudget.floor_bytes_per_s": "the least that it is slowed to, of controller",
    "PlannedBudget.ceiling_bytes_per_s": "the most that it may be granted",
    "PlannedBudget.shared_with": "so many others draw on the same budgets",
    "DomainBudget.bytes_per_s": "what all recoveries together may take of it",
    "PlannedTraffic.label": {"enum": ["live", "replay"], "description": "as the label `traffic` of metrics"},
    "Plan.contracts": "of the units whose inputs are copied or written to",
    "UnitContract.version": "of what the config declares: the same words have the same one",
    "ContractClause.told": "what was found, or what nobody has said",
    "Plan.receipts": "null = planned by a release that did not pin it",
    "ReceiptsHome": "The recovery's place on the receipts topic of the target cluster, pinned.",
    "ReceiptsHome.partitions": "as of planning",
    "ReceiptsHome.start": "no receipt of this recovery lies before this offset",
    "ForecastView": "Times in seconds (null = never), rates in records/s (null = not known or not asked).",
    "ForecastView.outlook": {"enum": list(map(str, Outlook)), "description": "the worst verdict that applies"},
    "ForecastView.outlooks": {"enum": list(map(str, Outlook))},
    "ForecastView.suggestion": "what would help, in numbers; empty when all is well",
    "ForecastView.bounded_seconds": "to the end as it is now",
    "ForecastView.moving_seconds": "until the live head is reached",
    "ForecastView.speed_up": "replay rate / rate of the window; null = window not known",
    "ForecastView.replay_source": "measured, configured or given",
    "ForecastView.live_source": "sampled, log times, given or unknown",
    "ForecastView.required_records_per_s": "for the deadline",
    "ForecastView.extra_share": "records that arrive meanwhile / backlog",
    "ForecastView.loss_in_seconds": "until retention deletes the record at the position; null = not",
    "ForecastView.retention_slack_seconds": "the same if nothing moved",
    "ForecastView.lost_data_seconds": "event time deleted before the start",
    "ForecastView.partition": "the slowest",
    "Progress.forecast": "the newest one, made each minute from measured rates",
    "Progress.verified_records": "read by the verification, on both sides",
    "Progress.verified_bytes": "the same in bytes",
    "Progress.verified_offsets": "of `offsets_to_verify`; a new attempt begins anew",
    "Progress.offsets_to_verify": "of source and target together, once its tasks have said so",
    "PartitionProgress.position": "everything before it is in the ledger",
    "PartitionProgress.state": {
        "enum": ["waiting", "copying", "paused", "blocked", "stopped", "done"],
        "description": "`stopped`: its recovery ended before it came to its stop",
    },
    "Limits.max_runtime": "duration, such as 90s",
    "Limits.idle": "duration, such as 60s",
    "Limits.mode": {"enum": ["unlimited", "fixed", "controller"]},
    "Limits.weight": "when it is not 1",
    "Limits.tier": "when it is not 0",
    "Limits.override_live_slo": "when it is set",
    "LimitsNow.requested": "the limits that are set now",
    "LimitsNow.rule": "why the rate is what it is",
    "CompletenessRow.offsets": {
        "type": "integer",
        "description": "copied + filtered + skipped + lost + unexplained",
    },
    "CompletenessRow.unexplained": {"type": "integer"},
    "CompletenessRow.filtered": "outside the wanted times",
    "CompletenessRow.skipped": "offsets that hold no visible record",
    "Plan.remote": "what of the range lies in remote storage (tiered storage) and is read more slowly",
    "CompletenessRow.min_time": "the smallest timestamp of the copied records; null where nothing was copied, or it is not known",
    "CompletenessRow.max_time": "the largest",
    "CompletenessRow.lost": "deleted before they were copied",
    "Verification.result": {"enum": ["match", "mismatch", "skipped"]},
    "Verification.scope": {
        "enum": ["source", "mixed", "receipts", ""],
        "description": "what the proof rests on: the source read again, receipts for a part of it, or receipts only",
    },
    "Verification.extra_records": "in the target, but of no record of the source range",
    "Verification.records_by_receipts": "of the source records: no longer readable there, proved by receipts only",
    "Verification.unkeyed_source_records": "of `compare: latest`: in the source range without a key, so not compared",
    "Verification.unkeyed_target_records": "the same in the target",
    "Verification.target_ends": "by partition, up to where the target was read: what lies behind came later",
    "Verification.uncopied": "by partition that the source got too late for a copy of all: how many offsets it holds",
    "Difference.kind": {
        "enum": ["missing", "extra", "altered", "reordered", "ledger"],
        "description": "`ledger`: a receipt is not what the reread showed",
    },
    "Difference.count": "records in a row from there",
}
_WATCH_WORDS: Final[Told] = {
    **_STOP_WORDS,
    "Watch.recovery": "the watch's id",
    "Watch.state": {"enum": ["running", "completed", "stopped", "failed"]},
    "Watch.why": "one sentence, always current",
    "Watch.error_code": "of the catalogue, when it failed",
    "Watch.stop": "why it ended, calls its webhook or stops an application",
    "Watched.until": '"caught_up", {"offsets": {TOPIC: {PARTITION: n}}} or {"deadline": time}',
    "Watched.delivery": "the call of the webhook, once it is wanted",
    "Watched.unit_stop": "the stop of an application, once it is wanted",
    "UnitStop.before": "how it ran, as whoever controls it said; null while not known, and nothing is stopped before",
    "UnitStop.told": "since when it is asked to stop",
    "WatchProgress.done": "partitions that are where they are wanted",
    "WatchProgress.planned": "partitions that have to be",
    "WatchProgress.lag_records": "of all partitions; null while any is not known",
    "WatchProgress.lag_seconds": "of the worst partition; null while any is not known",
    "WatchProgress.coverage": "share of the partitions whose position and end are known and fresh",
    "WatchProgress.evaluations": "looks in a row at zero lag",
    "WatchProgress.partitions": "not there yet, worst first, at most 50",
    "WatchedPartition.position": "committed by the group; null while not known",
    "WatchedPartition.end": "high watermark; null while not known",
    "WatchedPartition.wanted": "the offset waited for; null for `caught_up`",
    "WatchedPartition.verdict": "lag verdict, such as catching_up or unknown",
    "Delivery.id": "idempotency key, sent as X-Recoveryd-Delivery",
    "Delivery.status": "HTTP status of the last try; null = nobody answered",
}
_SCHEDULE_WORDS: Final[Told] = {
    "Schedule.recovery": "the schedule's id",
    "Schedule.state": {"enum": ["running", "stopped", "failed"]},
    "Schedule.why": "one sentence, always current",
    "Schedule.error_code": "of the catalogue, when it failed",
    "Schedule.stop": "why it ended",
    "Scheduled.command": "what is sent: verb, data, and the subject of one that steers",
    "Scheduled.overrun": {"enum": ["skip", "queue"]},
    "Scheduled.max_runtime": "duration, such as 4h",
    "Scheduled.forecast": "whether the next run is expected to be over before the one after it is due, by the last runs; null before the first ended",
    "RunForecast.runs": "how many of the last completed runs it rests on",
    "Scheduled.next_run": "the next due time; null once the schedule has ended",
    "Scheduled.queued": "a due time that waits for the end of the present run",
    "Scheduled.run": "the run that goes on",
    "Scheduled.last_run": "the last one that ended",
    "Scheduled.last_end": "where the last run ended, for one that starts there",
    "LastEnd.target_topic_id": "of the topic that was copied into; the next run goes into no other one of its name",
    "LastEnd.since": "where the first run began at a time: what is older is left out by all; null where it did not",
    "ScheduleRun.due": "its time by `cron`",
    "ScheduleRun.fired": "when it was decided",
    "ScheduleRun.recovery": "the id of what it began, or of what its command is about",
    "ScheduleRun.deadline": "absolute",
    "ScheduleRun.data": "what was sent, while it goes on",
    "ScheduleRun.control_offset": "where its command lies on the control topic; -1 = not read yet",
    "ScheduleRun.outcome": "the state in which it ended, or the answer to its command; empty while it goes on",
    "RunAnswer.kind": {"enum": ["accepted", "rejected", "duplicate", "expired"]},
    "LastEnd.offsets": "the next offset to copy, by partition",
    "LastEnd.recovery": "the run that came that far",
    "RunCounts.late": "of those fired: made up for due times without a daemon, or began more than a minute late",
    "RunCounts.skipped": "due times left out because the last run still went on",
}
_HOLD_WORDS: Final[Told] = {
    **_STOP_WORDS,
    "Hold.recovery": "the hold's id",
    "Hold.state": {
        "enum": ["running", "completed", "stopped", "expired"],
        "description": "its topics are held while it is `running`, and only then",
    },
    "Hold.why": "one sentence, always current",
    "Hold.stop": "when it ended",
    "Held.topics": "held while `state` is `running`; when it ended, those that it had last",
    "Held.reads": "nothing may be copied from there either",
    "Held.expires": "null = only a person releases it",
    "Held.released": "topics that were let go before the others",
    "Held.members": "members of consumer groups that obey the hold, and others of these groups that read there",
    "Held.obeyed": "groups of which every member has paused",
    "HeldMember.member": "Kafka's id of the member",
    "HeldMember.client": "its client id",
    "HeldMember.state": {"description": "`silent`: it reads held topics and said nothing"},
    "HeldMember.positions": "where it stands still: the next record it will read",
    "Held.missing": "topics of it that do not exist, as the broker said last",
}
_DAEMON_WORDS: Final[Told] = {
    "DaemonRecord.applied_control_offset": {
        "minimum": -1,
        "description": "offset of the last control record whose outcome is journaled",
    },
}
_UNDO_STATE: Final = {
    "enum": ["open", "done", "kept", "left"],
    "description": "`kept`: somebody else changed it since; `left`: it could not be put back",
}
_WORKFLOW_WORDS: Final[Told] = {
    **_STOP_WORDS,
    "Workflow.why": "one sentence, always current",
    "Workflow.workflow": "the verb of its command",
    "Workflow.unit": "null where the command named a group",
    "Workflow.error_code": "of the catalogue, when it failed or was refused",
    "Workflow.undo": "what was changed, and how each of it is put back",
    "WorkflowPlan.changes": "as they are once the group was found empty; before, as it was when planned",
    "WorkflowPlan.findings": "what is done instead of what was asked for",
    "WorkflowPlan.ambiguous_topics": "topics that look internal and are left alone",
    "WorkflowPlan.confirmations": "what was thought of before offsets are set back: by the plan, by a person, or open",
    "WorkflowPlan.contracts": "of the unit whose inputs are to be processed again; empty of others, and of plans of earlier releases",
    "UnitContract.version": "of what the config declares: the same words have the same one",
    "ContractClause.told": "what was found, or what nobody has said",
    "WorkflowPlan.copies": "what its recoveries copy together, at most; null where it copies nothing, or that is not known yet",
    "PlannedCopies.bytes_at_most": "null = neither the brokers nor a sample of records said",
    "WorkflowPlan.version": "of an upgrade: whether the new version fits; null of others",
    "VersionChange.unfixed_range": "by input and partition, [start, stop) of which the old version made the results",
    "VersionChange.fix": "data of replays that copy this range, once it is known",
    "Change.what": {"enum": ["offset", "topic", "config", "unit", "quota"]},
    "WorkflowStep.tries": "how often it was begun",
    "WorkflowStep.evidence": "the numbers that its result rests on",
    "WaitingFor.kind": {
        "enum": ["ack", "group_empty", "approval", "ready", "recoveries", "gates", "choice", "live", "answer"],
        "description": "`live`: until live traffic lets a copy begin; `answer`: of its cluster, to a look that is made once",
    },
    "WaitingFor.members": "of a group that must become empty",
    "WaitingFor.is_under_way": "an application is being stopped or started by whoever controls it: no person is waited for, but one may `ack` it",
    "WaitingFor.unanswered_since": "since then no look at it was answered, and what is said besides is of the last answer; null = it is known",
    "WaitingFor.last_error": "why the last look was not answered; empty where it was",
    "Workflow.cut": "of a savepoint: where the application stood; null of others",
    "OffsetUndo.to": "what was committed; null = nothing",
    "OffsetUndo.was_set": "what was put there; null = nothing yet",
    "OffsetUndo.state": _UNDO_STATE,
    "TopicUndo.to": "the id of the topic before; null = it was not there",
    "TopicUndo.was_set": "the id that it was given; null = it was taken away, or nothing was done yet",
    "TopicUndo.state": _UNDO_STATE,
    "ConfigUndo.to": "the value before; null = it was not set on the topic itself",
    "ConfigUndo.state": _UNDO_STATE,
    "ConfigUndo.is_temporary": "put back when the workflow ends, however it ends",
    "UnitUndo.to": "an application is let run again",
    "UnitUndo.was_set": "null = it was not stopped yet",
    "UnitUndo.before": "how it ran, as whoever stopped it said",
    "UnitUndo.state": _UNDO_STATE,
    "Workflow.report": "of a runbook that ended: what was seen, decided, changed and verified, and what is open; null of others",
    "QuotaUndo.name": "a client id",
    "QuotaUndo.to": "how much it could read per second before; null = nothing was set for it by itself",
    "QuotaUndo.state": _UNDO_STATE,
    "Cut.ends": "by topic and partition, of these and of the outputs",
    "Cut.offsets": "by topic and partition, of inputs and intermediate topics; null = nothing was committed",
    "Cut.topic_ids": "ids of inputs and intermediate topics, so that one that is created again since is told apart",
    "Cut.is_exact": "whether offsets and state are known to be of one moment; `why` says how",
    "Cut.is_exact_if_clean": "they are if the application was stopped cleanly, which nobody saw",
    "CutTopic.copy": "the topic that holds what lay between `starts` and `stops`",
    "CutTopic.copy_ends": "by partition, where the copy ended when it was verified: what lies behind came later; empty in savepoints of earlier releases",
    "CutTopic.is_between": "what lies there was written and not read yet, as in a repartition topic",
}
# Fields that records of 0.1.0 lack, until they are written again.
_LATER: Final = {
    "CompletenessRow.min_time",
    "CompletenessRow.max_time",
    "Plan.receipts",
    "Plan.remote",
    "Plan.contracts",
    "Plan.budget",
    "Plan.impact",
    "Plan.traffic",
    "PlannedTopic.ranges",
    "Progress.verified_records",
    "Progress.verified_bytes",
    "Progress.verified_offsets",
    "Progress.offsets_to_verify",
    "Verification.scope",
    "Verification.extra_records",
    "Verification.records_by_receipts",
    "Verification.unkeyed_source_records",
    "Verification.unkeyed_target_records",
    "Verification.target_ends",
    "Verification.uncopied",
}
_WORKFLOW_LATER: Final = {
    "Cut.is_exact_if_clean",
    "CutTopic.copy_ends",
    "WorkflowPlan.contracts",
    "WorkflowPlan.copies",
    "WaitingFor.unanswered_since",
    "WaitingFor.last_error",
}
_WATCH_LATER: Final = {"Watched.unit_stop"}


def recovery_schema() -> Schema:
    schema = NounForm(Recovery).schema()
    parts, fields = schema["$defs"], schema["properties"]
    fields["attempt"] = parts["Attempt"]["properties"]["number"]
    beside = {name: fields[name] for name in BESIDE_LIMITS}
    parts["LimitsNow"] = make_object({"requested": ref("Limits"), **beside})
    fields["limits"] = ref("LimitsNow")
    fields["internal"] = dict(INTERNAL)
    only(schema, (*PUBLIC, "internal"))
    _plan(parts)
    sums: dict[str, Any] = {"records": dict(NATURAL), "bytes": dict(NATURAL)}
    parts["Progress"]["properties"] = {**sums, **parts["Progress"]["properties"]}
    rows = parts["CompletenessRow"]["properties"]
    ends = {name: rows.pop(name) for name in ("partition", "from", "to")}
    parts["CompletenessRow"]["properties"] = {**ends, "offsets": {}, **rows, "unexplained": {}}
    schema["description"] = "Value on the status topic (key = recovery id), and `GET /api/v1/recoveries/{id}`."
    return finished(schema, _RECOVERY_WORDS, optional={"Limits", *_LATER})


def watch_schema() -> Schema:
    schema = NounForm(Watch).schema()
    parts, fields = schema["$defs"], schema["properties"]
    own = {**parts["WatchSpec"]["properties"], **{name: fields[name] for name in PARTS}}
    parts["Watched"] = make_object(own)
    fields |= {"kind": {"const": KIND, "type": "string"}, "watch": ref("Watched"), "internal": dict(INTERNAL)}
    only(schema, ("recovery", "kind", *WATCH_PUBLIC[1:], "watch", "internal"))
    schema["description"] = (
        "Value on the status topic of a record with `kind` watch (key = its id), and `GET /api/v1/recoveries/{id}`."
    )
    return finished(schema, _WATCH_WORDS, optional=_WATCH_LATER)


def workflow_schema() -> Schema:
    schema = NounForm(Workflow).schema()
    parts, fields = schema["$defs"], schema["properties"]
    only(parts["WorkflowStep"], [name for name in parts["WorkflowStep"]["properties"] if name != "action"])
    fields |= {"kind": {"const": WORKFLOW, "type": "string"}, "internal": dict(INTERNAL)}
    only(schema, ("recovery", "kind", *WORKFLOW_PUBLIC[1:], "internal"))
    schema["description"] = (
        "Value on the status topic of a record with `kind` workflow (key = its id), and `GET /api/v1/recoveries/{id}`."
    )
    return finished(schema, _WORKFLOW_WORDS, optional=_WORKFLOW_LATER)


def schedule_schema() -> Schema:
    schema = NounForm(Schedule).schema()
    parts, fields = schema["$defs"], schema["properties"]
    own = {**parts["ScheduleSpec"]["properties"], **{name: fields[name] for name in schedule_status.PARTS}}
    parts["Scheduled"] = make_object(own)
    kind = {"const": SCHEDULE, "type": "string"}
    fields |= {"kind": kind, "schedule": ref("Scheduled"), "internal": dict(INTERNAL)}
    only(schema, ("recovery", "kind", *schedule_status.PUBLIC[1:], "schedule", "internal"))
    schema["description"] = (
        "Value on the status topic of a record with `kind` schedule (key = its id), and `GET /api/v1/recoveries/{id}`."
    )
    return finished(schema, _SCHEDULE_WORDS)


def hold_schema() -> Schema:
    schema = NounForm(Hold).schema()
    parts, fields = schema["$defs"], schema["properties"]
    parts["Held"] = make_object({name: fields[name] for name in OWN})
    fields |= {"kind": {"const": HOLD_KIND, "type": "string"}, "hold": ref("Held"), "internal": dict(INTERNAL)}
    only(schema, ("recovery", "kind", *HOLD_PUBLIC[1:], "hold", "internal"))
    schema["description"] = (
        "Value on the status topic of a record with `kind` hold (key = its id), and `GET /api/v1/recoveries/{id}`."
    )
    return finished(schema, _HOLD_WORDS)


def daemon_schema() -> Schema:
    """The schema of the daemon's own record."""
    schema = NounForm(DaemonRecord).schema()
    fields = schema["properties"]
    hidden = {name: inner for name, inner in fields.items() if name not in DAEMON_PUBLIC}
    fields |= {"daemon": {"const": True, "type": "boolean"}, "internal": ref("DaemonInternal")}
    own = make_object({"format": {"type": "integer"}, **hidden})
    schema["$defs"] = {**schema.get("$defs", {}), "DaemonInternal": own}
    only(schema, ("daemon", *DAEMON_PUBLIC, "internal"))
    schema["description"] = f"Value on the status topic with the key `{DAEMON_KEY}`."
    return finished(schema, _DAEMON_WORDS, optional={"DaemonInternal.decided"})


def _plan(parts: dict[str, Schema]) -> None:
    only(parts["Plan"], PUBLIC_PLAN)
    only(parts["PlannedPartition"], PUBLIC_PARTITION)
    topic = parts["PlannedTopic"]["properties"]
    parts["PlannedSource"] = make_object({**topic, "partitions": list_of("PlannedPartition")})
    parts["ComparedRange"] = make_object(dict.fromkeys(("partition", "start", "stop"), NATURAL))
    parts["PlannedTopic"]["properties"] = {**topic, "ranges": list_of("ComparedRange")}
    parts["Plan"]["properties"]["source"] = ref("PlannedSource")
