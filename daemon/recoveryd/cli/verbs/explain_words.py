"""What `recoveryctl explain` says besides the catalogue: why a code comes up, an example and the next commands, and
what states, reasons, verdicts and rules mean (`explain_cases` has why those come up). A test holds that nothing the
daemon can say is missing here.
"""

from typing import Final

Meaning = tuple[str, ...]  # a sentence, then what to type next

# By how the number of a code begins, the longest beginning counts: why it comes up, and what to type next.
FAMILIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "1": (
        "A command was refused for what it says, or because it does not fit what is there. Nothing was started.",
        ("recoveryctl list", "recoveryctl replay ... --print-record"),
    ),
    "100": (
        "The control record could not be read as a command. The command line checks its own records with the same rules, so most of these come from other producers.",
        ("recoveryctl replay ... --print-record", "recoveryctl list"),
    ),
    "1008": (
        "The id is that of something that goes on, or that ended and is still known (limits.keep_terminal).",
        ("recoveryctl list", "recoveryctl describe ID"),
    ),
    "1009": (
        "Source and id of a command are its idempotency key: the same command may come twice, another one may not have its key.",
        ("recoveryctl list",),
    ),
    "1010": (
        "A slip in the id, a record that was forgotten after limits.keep_terminal, or another installation than was meant.",
        ("recoveryctl list", "recoveryctl context list"),
    ),
    "1011": (
        "It went on between your look and your command, or has ended.",
        ("recoveryctl get ID", "recoveryctl describe ID"),
    ),
    "1012": (
        "Offsets, topics or settings that the plan is made of changed since its hash was made.",
        ("recoveryctl replay ... --plan-only", "recoveryctl diff LEFT RIGHT"),
    ),
    "1013": ("No daemon read the command in the time that it was good for.", ("recoveryctl doctor",)),
    "1020": ("A bound of the config or of one daemon is reached.", ("recoveryctl list --state running",)),
    "1021": ("An approver looked at the plan and said no.", ("recoveryctl describe ID",)),
    "1022": ("The time for an approval (approval.ttl) passed.", ("recoveryctl describe ID",)),
    "1023": (
        "A signal under `monitor:` is over its SLO before the replay has begun.",
        ("recoveryctl lag", "recoveryctl top"),
    ),
    "1024": (
        "A signal under `monitor:` has not been measured for minutes: its group, topic, canary or Prometheus does not answer.",
        ("recoveryctl lag", "recoveryctl top", "recoveryctl doctor"),
    ),
    "104": (
        "What the command says of a unit, a group or a savepoint does not fit the config or other work on it. Nothing was changed.",
        ("recoveryctl unit list", "recoveryctl list --state running"),
    ),
    "1043": (
        "`approvals:` of the config names who may approve what, and the sender is none of them.",
        ("recoveryctl config show", "recoveryctl describe ID"),
    ),
    "1048": ("`confirmations: asked` of the unit makes a person answer first.", ("recoveryctl unit show NAME",)),
    "1049": ("`required_clauses` of the unit must be good first.", ("recoveryctl unit contract NAME",)),
    "106": (
        "Holds keep writers off a topic while somebody corrects it.",
        ("recoveryctl list -o wide", "recoveryctl describe ID"),
    ),
    "107": (
        "A step of a runbook or an upgrade wants another answer than it got.",
        ("recoveryctl runbook show ID", "recoveryctl describe ID"),
    ),
    "2": (
        "The clusters are not as the command needs them, or do not answer. Nothing was changed.",
        ("recoveryctl doctor", "recoveryctl replay ... --plan-only"),
    ),
    "200": (
        "The plan looked at source and target, and one is not as the command needs it. Nothing was started.",
        ("recoveryctl replay ... --plan-only", "recoveryctl doctor"),
    ),
    "2011": (
        "Brokers are down, the address or a listener is wrong, or a firewall drops what is sent.",
        ("recoveryctl doctor", "recoveryctl config show"),
    ),
    "2012": (
        "A login is refused, or an ACL is missing for the user of the daemon or of the command line.",
        ("recoveryctl doctor", "recoveryctl config show"),
    ),
    "2015": (
        "The brokers are older than the request, or keep it switched off.",
        ("recoveryctl doctor features",),
    ),
    "204": (
        "A group or topic of the application changed under the workflow, or is not as it must be. What others did is left as it is.",
        ("recoveryctl describe ID", "recoveryctl unit show NAME"),
    ),
    "207": (
        "Something that the runbook relies on is not as it was, or not as it must be.",
        ("recoveryctl runbook show ID", "recoveryctl unit contract NAME"),
    ),
    "3": (
        "It happened while a recovery ran. What was copied stays exactly where it is, and receipts know it.",
        ("recoveryctl describe ID", "recoveryctl doctor"),
    ),
    "3001": (
        "Retention or DeleteRecords took records of the range away while it was copied.",
        ("recoveryctl describe ID", "recoveryctl forecast --window 4d ..."),
    ),
    "3003": (
        "The cluster of the source did not answer for too long, refused to be read, or holds a record that cannot be read.",
        ("recoveryctl describe ID", "recoveryctl logs ID", "recoveryctl doctor", "recoveryctl retry ID"),
    ),
    "3004": (
        "The cluster of the target did not answer for too long, or refused what was written.",
        ("recoveryctl describe ID", "recoveryctl logs ID", "recoveryctl doctor", "recoveryctl retry ID"),
    ),
    "3006": (
        "Each attempt died before it had committed a chunk, or before it had compared all: too little memory, a Python without what it needs, a machine that is full.",
        ("recoveryctl logs ID", "recoveryctl doctor", "recoveryctl retry ID"),
    ),
    "3007": (
        "Something else wrote to the target, or records were changed or lost on the way.",
        ("recoveryctl describe ID",),
    ),
    "3009": (
        "There was something to copy or to compare, and for attempts.stall_after nothing of it was done.",
        ("recoveryctl describe ID", "recoveryctl logs ID"),
    ),
    "3012": (
        "Java or Spark is missing, the profile's master does not answer, or the machine has no room.",
        ("recoveryctl doctor", "recoveryctl logs ID"),
    ),
    "303": (
        "A watch or a schedule could not do what it was for. The group that it looked at was not touched by it.",
        ("recoveryctl describe ID",),
    ),
    "3033": (
        "The condition held, and the application was asked to stop; it was still there when its time was over.",
        ("recoveryctl describe ID", "recoveryctl unit control NAME"),
    ),
    "3043": (
        "Attempts or chunks kept failing, each for a cause of its own; the message has the last one.",
        ("recoveryctl describe ID", "recoveryctl logs ID", "recoveryctl retry ID"),
    ),
    "3044": (
        "Partitions were added to the source while the copy ended, or nobody could look whether any were.",
        ("recoveryctl describe ID", "recoveryctl replay ... --partitions 4,5 --on-existing append"),
    ),
    "3045": (
        "The log start of the source came closer than the copy got on, in two forecasts in a row: live traffic or a limit keeps it slow, or retention is short.",
        ("recoveryctl describe ID", "recoveryctl forecast --window 4d ..."),
    ),
    "304": (
        "The Spark application is not as the copy needs it; the profile in the daemon's config says how it is started.",
        ("recoveryctl logs ID", "recoveryctl config show", "recoveryctl doctor"),
    ),
    "305": (
        "A workflow could not go on. What it changed is in its record, and can be put back.",
        ("recoveryctl describe ID", "recoveryctl rollback ID --reason TEXT"),
    ),
    "307": (
        "A runbook could not go on without a person. What it changed is in its record, and can be put back.",
        ("recoveryctl runbook show ID", "recoveryctl rollback ID --reason TEXT"),
    ),
    "4": (
        "The command line, a config or this machine is not as it must be.",
        ("recoveryctl config validate", "recoveryctl doctor"),
    ),
    "400": (
        "The config, a variable RECOVERYD_... or a topic of recoveryd's own is not as it must be; nothing was started.",
        ("recoveryctl config validate", "recoveryctl config show", "recoveryctl doctor"),
    ),
    "4007": ("Spark and the sandbox need Java; the rest does not.", ("recoveryctl doctor",)),
    "4008": ("The line was refused before anything was sent.", ("recoveryctl --help",)),
    "4009": (
        "--timeout bounds how long is waited, not how long it runs.",
        ("recoveryctl wait ID", "recoveryctl get ID"),
    ),
    "4010": (
        "No daemon leads, or it reads another control topic: other brokers, another topics.prefix.",
        ("recoveryctl doctor", "recoveryctl config show"),
    ),
    "4015": (
        "It ran beside another daemon, its folder was cleaned, or http.logs is off.",
        ("recoveryctl logs ID --http HOST:PORT", "recoveryctl describe ID"),
    ),
    "4016": (
        "32 pages of the API, or 8 of /metrics, are being answered: many ask at once, or some ask and read slowly.",
        ("recoveryctl list", "recoveryctl doctor"),
    ),
    "4017": (
        "--http, or the context, names a standby, a daemon that led until just now, or one that has just started.",
        ("recoveryctl list --http HOST:PORT", "recoveryctl list", "recoveryctl doctor"),
    ),
    "5": ("The daemon itself had to leave; the next leader goes on from the journal.", ("recoveryctl doctor",)),
}
EXAMPLES: Final[dict[str, str]] = {
    "NOT_A_CLOUDEVENT": "A record made by hand with a comma too many: it goes to recovery.control.v1.dlq with the error in its headers.",
    "UNKNOWN_FIELD": '`"limits": {"max_byte_per_s": 5}`: the hint names `max_bytes_per_s`.',
    "INVALID_VALUE": "`--from 100` where `--from offset:100` is meant.",
    "MISSING_FIELD": "`recoveryctl replay --source flights` without `--from`.",
    "ID_IN_USE": "`--id nightly` on the second night; leave --id out and one is made.",
    "IDEMPOTENCY_CONFLICT": "A script sends another replay under the same `--command-id`.",
    "NO_SUCH_RECOVERY": "`recoveryctl get flight-rerun` where `flights-rerun` is meant.",
    "NOT_IN_THIS_STATE": "`recoveryctl resume ID` of a recovery that runs.",
    "STALE_PLAN": "Between --plan-only and --plan-hash records came in, so the pinned end of `latest` is another one.",
    "EXPIRED": "`--expires 1m`, and the daemon was away for two.",
    "ZONE_MISSING": "`--from 2026-11-21T06:00:00`; with Z or +01:00 it is one moment everywhere.",
    "UNKNOWN_CLUSTER": "`--target-cluster dr` and no `clusters.dr` in the daemon's config.",
    "SAME_TOPIC": "`--source flights --target flights`.",
    "LIVE_OVER_SLO": "A replay is started while a protected group is already behind its SLO; --override-live-slo starts it all the same.",
    "TARGET_NOT_EMPTY": "The target has records of an earlier run; --on-existing append, or another target.",
    "CLUSTER_UNREACHABLE": "A broker restarts, or a firewall drops port 9092.",
    "NOT_AUTHORISED": "The daemon's user has no Write on the target; docs/acls.md lists what it needs.",
    "DATA_LOST": "Retention deleted the first hours of the range before they were copied.",
    "TOPIC_RECREATED": "Somebody deleted the source and created it again under the same name.",
    "ATTEMPTS_EXHAUSTED": "Five attempts in a row died without a chunk; `recoveryctl describe ID` shows of what.",
    "VERIFICATION_MISMATCH": "Another producer wrote to the target while it was copied.",
    "STALLED": "A transaction that nobody ended holds the last stable offset before the end of the range.",
    "BOOTSTRAP_MISSING": "`recoveryctl list` in a new shell: `recoveryctl context use NAME` is remembered.",
    "OWN_TOPIC_MISSING": "The first start on a cluster.",
    "CONFIG_UNKNOWN_KEY": "`chunks:` where `chunk:` is meant.",
    "NO_ANSWER": "No daemon runs; the command lies on the control topic, and the next one handles it.",
    "WAIT_TIMED_OUT": "`--wait --timeout 10m` of a copy that takes an hour; it goes on.",
    "FENCED": "Two daemons run and the standby took over while this one was frozen.",
    "MISSING_ATTRIBUTE": "A record with no `source`, or with `specversion: 1.0` as a number.",
    "UNKNOWN_TYPE": "`io.recoveryd.command.reply.v1`: the hint names `replay`.",
    "INVALID_SUBJECT": "`--id Flights_Rerun`: capital letters are not allowed.",
    "TOO_LARGE": "A `reset` made by a script with offsets of 100,000 partitions in one record.",
    "UNKNOWN_PROFILE": "`--profile large` and no `profiles.large` in the daemon's config.",
    "INTERNAL_TOPIC": "`--target __consumer_offsets`, or one of recoveryd's own topics.",
    "TOO_MANY_RECOVERIES": "A loop in a script starts a replay for each of 500 topics at once.",
    "REJECTED_BY_OPERATOR": "`recoveryctl reject ID --reason 'not in the peak hour'`.",
    "APPROVAL_EXPIRED": "A plan of Friday evening that its approver sees on Monday.",
    "LIVE_UNKNOWN": "The protected group has a topic whose partition has no leader, so that its lag cannot be known.",
    "UNKNOWN_WEBHOOK": "`--then webhook:page-me` and no `webhooks.page-me` in the daemon's config, or a daemon that was not restarted since.",
    "NOT_FOR_THIS_KIND": "`recoveryctl pause` of a watch.",
    "TOO_MANY_SCHEDULES": "A deployment that makes schedules of new ids each time and removes none.",
    "UNKNOWN_UNIT": "`recoveryctl reset --unit order-processer` where `order-processor` is meant.",
    "NOTHING_TO_DO": "`recoveryctl reset --group GROUP --to current` of a group that has committed nothing.",
    "NO_SUCH_SAVEPOINT": "`--to savepoint:friday` of a savepoint that failed.",
    "GROUP_TYPE": "A reset of a share group, whose offsets are the brokers' own.",
    "NOT_AN_APPROVER": "Alice approves what Alice asked for.",
    "IN_USE": "A reset is asked for while a reprocess of the same group waits for a person.",
    "TOPIC_HELD": "A replay into `orders` while somebody has `recoveryctl hold orders`.",
    "NOT_HELD": "`recoveryctl release orders` after the hold expired.",
    "NOT_THE_HOLDER": "Bob releases a topic that Alice holds, without naming her hold by --id.",
    "UNIT_WATCHED": "A watch with `--then stop:order-processor`, and a reset of the same unit.",
    "NOT_CONFIRMED": "A reset of a unit with `confirmations: asked` and no --confirm.",
    "CONTRACT_OPEN": "`required_clauses` names one that neither the config nor the cluster can tell.",
    "WAIVER_WITHOUT_REASON": "`recoveryctl ack ID verify` while a gate is red.",
    "SOURCE_TOPIC_MISSING": "`--source flight` where `flights` is meant, or `--source-cluster` was left out.",
    "SOURCE_PARTITION_MISSING": "`--partitions 0,4` of a topic with four partitions, which are 0 to 3.",
    "OFFSET_OUTSIDE_LOG": "`--from offset:0` of a topic whose retention deleted the first records; `earliest` begins at what is left.",
    "SOURCE_CUT_BACK": "A replica that lagged became leader (unclean.leader.election.enable), and the next run of a schedule begins behind its end.",
    "TARGET_TOPIC_MISSING": "`--target flights.v42` without --create.",
    "TARGET_PARTITIONS": "A source with 12 partitions into a target with 6; `--mapping key_hash` places by key instead.",
    "TARGET_IN_USE": "A second replay into flights.v42 while the first one runs.",
    "TARGET_COMPACTED": "A copy of events into a topic with `cleanup.policy=compact`, which keeps the last one of each key.",
    "TARGET_LIMITS": "The source has records of 5 MB, and max.message.bytes of the target is 1 MB.",
    "RANGE_REVERSED": "`--from -1h --to -2h`.",
    "TARGET_CREATE_FAILED": "The broker's policy wants three replicas, and the cluster's default is one.",
    "TARGET_RETENTION": "Records of last year into a target with retention.ms of seven days.",
    "GROUP_NOT_EMPTY": "One instance of the application still runs on a machine that was forgotten.",
    "GROUP_CHANGED": "A colleague reset the same group with kafka-consumer-groups meanwhile.",
    "INPUT_INCOMPLETE": "A reprocess from earliest, and retention took the first days of an input.",
    "AMBIGUOUS_TOPICS": "Two applications whose ids begin alike, `orders` and `orders-eu`, and no topology in the config.",
    "RECORD_TOO_LARGE": "A record of 3 MB, and max.message.bytes of the target is 1 MB.",
    "SOURCE_UNAVAILABLE": "All brokers of the source restart, and it takes longer than the retries.",
    "TARGET_UNAVAILABLE": "The disk of the target's only broker is full.",
    "LAUNCH_FAILED": "The daemon's machine has no Java, or the Spark master in the profile does not answer.",
    "WATCH_UNFULFILLED": "`--until caught_up --deadline 2h`, and the group needed three.",
    "WEBHOOK_FAILED": "The receiver answered 500 six times.",
    "UNIT_NOT_STOPPED": "The unit's Deployment was scaled to 0, and a pod hung in its shutdown.",
    "SLOTS_MISSING": "A profile with one executor of two cores, and a copy of eight lanes.",
    "EXECUTORS_UNFIT": "Executors of an image without confluent-kafka.",
    "CONFIG_INVALID": "`lease: {ttl: 5s}` and renew_every as it is: that may be half of ttl at most.",
    "CONFIG_UNREADABLE": "`--config` names a folder, or the file holds a list.",
    "JAVA_MISSING": "A fresh machine: `sudo apt-get install openjdk-17-jre-headless`.",
    "USAGE": "`recoveryctl pause` with neither an id nor --all.",
    "NO_SUCH_GROUP": "`recoveryctl lag my-app`, and `monitor.topics` does not name it.",
    "NO_SUCH_CONTEXT": "`--context prd` where `prod` is meant.",
    "NO_LOG": "The attempt ran on the machine of the daemon that led yesterday.",
}
STATES: Final[dict[str, Meaning]] = {
    "requested": (
        "The command was taken; planning begins in the same moment, so that no status record says so.",
        "recoveryctl watch ID",
    ),
    "planning": ("Offsets, topics and limits are read, and the range is pinned.", "recoveryctl watch ID"),
    "planned": (
        "A dry run ended: there is a plan, and nothing was started.",
        "recoveryctl describe ID",
        "recoveryctl replay ... --plan-hash HASH",
    ),
    "awaiting_approval": (
        "The plan waits for a person who may approve it.",
        "recoveryctl approve ID --reason TEXT",
        "recoveryctl reject ID --reason TEXT",
        "recoveryctl describe ID",
    ),
    "starting": (
        "A Spark application is launched, or is being found again.",
        "recoveryctl describe ID",
        "recoveryctl logs ID",
    ),
    "running": (
        "It works: lanes copy, or a workflow takes its steps.",
        "recoveryctl top",
        "recoveryctl watch ID",
        "recoveryctl throttle ID --max-bytes-per-s 10MB --reason TEXT",
    ),
    "pausing": ("Lanes finish their chunks; nothing new is begun.", "recoveryctl watch ID"),
    "paused": (
        "Drained at exact positions; it stays so over restarts.",
        "recoveryctl resume ID --reason TEXT",
        "recoveryctl describe ID",
    ),
    "stopping": ("Lanes finish their chunks; then it ends for good.", "recoveryctl watch ID"),
    "verifying": ("All is copied; an independent reader compares both sides.", "recoveryctl watch ID"),
    "waiting": (
        "A workflow waits for what `waiting_for` names, such as a person or an empty group.",
        "recoveryctl describe ID",
        "recoveryctl ack ID STEP --reason TEXT",
    ),
    "closing": (
        "Done, but a temporary change is not put back yet; `stop` leaves it.",
        "recoveryctl describe ID",
        "recoveryctl stop ID --reason TEXT",
    ),
    "completed": (
        "Done: a copy adds up and was compared, but with `--verify none`; a `verify` has compared, and ends so with differences (RCV-3007) too. Final, but for `rollback` of a workflow.",
        "recoveryctl describe ID",
        "recoveryctl rollback ID --reason TEXT",
    ),
    "stopped": (
        "It ended early, at exact positions: on purpose, or with an error code that says what it lacks. Final, but for `rollback` of a workflow.",
        "recoveryctl describe ID",
        "recoveryctl retry ID",
        "recoveryctl rollback ID --reason TEXT",
    ),
    "failed": (
        "It could not go on; the error code says why. Final, but for `rollback` of a workflow.",
        "recoveryctl describe ID",
        "recoveryctl logs ID",
        "recoveryctl retry ID",
        "recoveryctl rollback ID --reason TEXT",
    ),
    "rejected": ("It was refused, by the daemon or by an approver. Final.", "recoveryctl describe ID"),
    "expired": ("Nobody approved it, or its command came too late. Final.", "recoveryctl describe ID"),
    "rolled_back": ("What a workflow changed was put back. Final.", "recoveryctl describe ID"),
}
STOP_REASONS: Final[dict[str, Meaning]] = {
    "zero_lag": ("Nothing that it knew of was left: bounded, or caught up with the head.", "recoveryctl describe ID"),
    "operator": ("Somebody stopped it.", "recoveryctl describe ID", "recoveryctl retry ID"),
    "deadline": ("limits.deadline was reached.", "recoveryctl replay ... --deadline TIME", "recoveryctl retry ID"),
    "max_runtime": (
        "It ran for limits.max_runtime.",
        "recoveryctl replay ... --max-runtime 4h",
        "recoveryctl retry ID",
    ),
    "max_records": ("limits.max_records were copied.", "recoveryctl describe ID", "recoveryctl retry ID"),
    "max_bytes": ("limits.max_bytes were copied.", "recoveryctl describe ID", "recoveryctl retry ID"),
    "event_time": ("Every partition was past records of limits.event_time.", "recoveryctl describe ID"),
    "idle": ("Nothing came for limits.idle.", "recoveryctl describe ID"),
    "stalled": (
        "No record was copied, or compared, for attempts.stall_after, though there were some.",
        "recoveryctl describe ID",
        "recoveryctl logs ID",
        "recoveryctl explain RCV-3009",
    ),
    "data_lost": ("Retention or deletion took part of the range.", "recoveryctl explain RCV-3001"),
    "topic_recreated": ("A topic has the same name and another id.", "recoveryctl explain RCV-3002"),
    "retention_race": (
        "Retention deletes faster than the copy reads.",
        "recoveryctl forecast --window 4d ...",
        "recoveryctl explain RCV-3045",
    ),
    "error_rate": (
        "Too many attempts failed, or chunks had to be done again.",
        "recoveryctl describe ID",
        "recoveryctl logs ID",
        "recoveryctl explain RCV-3006",
        "recoveryctl explain RCV-3043",
    ),
    "live_slo": (
        "Of a pause only, and so never in `stop.reason`: protected live traffic was over its SLO at the floor rate too; it is paused until somebody resumes it.",
        "recoveryctl lag",
        "recoveryctl top",
        "recoveryctl resume ID --reason TEXT",
    ),
    "source_unavailable": (
        "The source did not answer for too long, refused to be read, or holds a damaged record; `why` says which.",
        "recoveryctl doctor",
        "recoveryctl explain RCV-3003",
    ),
    "target_unavailable": (
        "The target did not answer for too long, refused something, or holds a damaged record; `why` says which.",
        "recoveryctl doctor",
        "recoveryctl explain RCV-3004",
    ),
    "spark_unavailable": (
        "No Spark application could be started.",
        "recoveryctl doctor",
        "recoveryctl logs ID",
        "recoveryctl explain RCV-3012",
    ),
}
PAUSE_REASONS: Final[dict[str, Meaning]] = {
    "telemetry": (
        "Live traffic is not measured: it pauses, and goes on by itself once it is.",
        "recoveryctl doctor",
        "recoveryctl lag",
        "recoveryctl top",
    ),
    "live_slo": (
        "Live traffic stayed over its SLO: look at it, then resume; it does not go on by itself.",
        "recoveryctl lag",
        "recoveryctl top",
        "recoveryctl resume ID --reason TEXT",
    ),
    "topic_held": (
        "Somebody holds a topic of it: it pauses, and goes on by itself once no topic of it is held.",
        "recoveryctl list -o wide",
        "recoveryctl describe ID",
        "recoveryctl release TOPIC --reason TEXT",
    ),
    "leaving": (
        "Its daemon ended on purpose: it rests at exact positions, and goes on by itself with the next one.",
        "recoveryctl describe ID",
        "recoveryctl doctor",
    ),
}
LAG_VERDICTS: Final[dict[str, Meaning]] = {
    "ok": ("The group keeps up.", "recoveryctl lag"),
    "idle": ("Nothing to read, and nothing is missing.", "recoveryctl lag"),
    "catching_up": ("There is lag, and it shrinks.", "recoveryctl lag GROUP"),
    "unknown": (
        "Not all partitions were measured lately; that is never taken for healthy.",
        "recoveryctl lag GROUP",
        "recoveryctl doctor",
    ),
    "falling_behind": (
        "There is lag, and it grows although the group commits.",
        "recoveryctl lag GROUP",
        "recoveryctl diagnose UNIT",
        "recoveryctl pause --all --reason TEXT",
    ),
    "stalled": ("There is lag, members, and no commit.", "recoveryctl diagnose UNIT", "recoveryctl lag GROUP"),
    "stopped": (
        "There is lag, and nobody is in the group, or nothing was committed for longer than the window: its members may hang.",
        "recoveryctl lag GROUP",
        "recoveryctl diagnose UNIT",
    ),
    "rewound": (
        "The committed offset went back: a reset, or a replay of its own.",
        "recoveryctl lag GROUP",
        "recoveryctl list",
    ),
    "blocked_by_txn": ("A transaction that is open holds the end that may be read.", "recoveryctl lag GROUP"),
    "invalid": (
        "The committed offset says nothing of the lag: it is past the end, it jumped ahead of records that nobody read, or the topic was made anew or cut back. WHY of `recoveryctl lag GROUP` says which.",
        "recoveryctl lag GROUP",
        "recoveryctl diagnose UNIT",
    ),
    "data_lost": (
        "Records were deleted before the group read them.",
        "recoveryctl lag GROUP",
        "recoveryctl retention show UNIT",
    ),
}
CONTROL_VERDICTS: Final[dict[str, Meaning]] = {
    "protected": ("All that is protected is measured, and the rate follows it.", "recoveryctl top"),
    "latency_unprotected": (
        "No produce latency is measured; only lag steers.",
        "recoveryctl doctor",
        "recoveryctl config show",
    ),
    "unattributable": ("A signal is bad, and our rate does not move it.", "recoveryctl top", "recoveryctl describe ID"),
    "blind": (
        "A protected signal is not measured: the rate decays to the floor.",
        "recoveryctl doctor",
        "recoveryctl lag",
        "recoveryctl top",
    ),
    "paused": (
        "A protected signal was not measured for minutes: replays pause.",
        "recoveryctl doctor",
        "recoveryctl lag",
        "recoveryctl throttle ID --mode fixed --max-bytes-per-s 10MB --reason TEXT",
    ),
    "idle": ("Nothing copies, so there is nothing to decide.", "recoveryctl top"),
}
OUTLOOKS: Final[dict[str, Meaning]] = {
    "retention_loss": ("Retention deletes part of the range before it is copied.", "recoveryctl forecast ..."),
    "impractical_never": ("The live rate is at least the replay's: it never catches up.", "recoveryctl forecast ..."),
    "impractical_slow": ("It ends, but hardly faster than the traffic came in.", "recoveryctl forecast ..."),
    "deadline_miss": ("It ends after the deadline; the forecast names the rate it needs.", "recoveryctl forecast ..."),
    "marginal": ("It ends in time, with little to spare.", "recoveryctl forecast ..."),
    "ok": ("It ends in time.", "recoveryctl replay ..."),
}
# By number, as in docs/policies/throttle.md.
RULES: Final[dict[str, Meaning]] = {
    "stale": ("1: what is not known cannot be protected, so the rate decays to the floor.", "recoveryctl top"),
    "gate": ("2: waits for samples taken since the last step before it takes another.", "recoveryctl top"),
    "guard": ("3: a signal is at its SLO; the rate is cut by how far, by 30 % at least.", "recoveryctl top"),
    "slow_start": (
        "4: far below the target; the rate doubles per loop delay, or goes back to what was safe.",
        "recoveryctl top",
    ),
    "track": ("5: the budget follows the distance to the target.", "recoveryctl top"),
    "no_windup": ("6: the lanes do not use what they have, so the budget does not grow.", "recoveryctl top"),
    "publish": ("7: the rate keeps within floor and ceiling, and small changes are not told.", "recoveryctl top"),
    "protect": (
        "8: no pressure sets the rate. Nothing that is listed counts, so that nothing limits; or nothing wants to copy; or what presses is not moved by our rate, which stays at its floor or holds. The sentence beside the rule says which.",
        "recoveryctl top",
        "recoveryctl lag",
    ),
    "foreign": (
        "9: live traffic is at its SLO, or was just now, maybe not because of us; nothing rises meanwhile.",
        "recoveryctl top",
    ),
}
VERSION_VERDICTS: Final[dict[str, Meaning]] = {
    "compatible": (
        "The new version finds all state again, by name; whether the code means the same is not told.",
        "recoveryctl describe ID",
    ),
    "unknown": ("A person has to say; it is never taken for one of the others.", "recoveryctl describe ID"),
    "incompatible": (
        "The new version would not find some of the state or of what is under way.",
        "recoveryctl describe ID",
    ),
}
TRUTHS: Final[dict[str, Meaning]] = {
    "aligned": ("The three describe the same point.", "recoveryctl runbook show ID"),
    "sink_ahead": (
        "The sink holds what was not committed: it will be read again and written twice.",
        "recoveryctl runbook show ID",
    ),
    "sink_behind": (
        "What was committed is not in the sink: it is not read again and is missing.",
        "recoveryctl runbook show ID",
    ),
    "state_stale": ("The state is of another point than the offsets.", "recoveryctl runbook show ID"),
    "unknown": ("One of them is not known; this never counts as aligned.", "recoveryctl runbook show ID"),
}
TABLES: Final[dict[str, dict[str, Meaning]]] = {
    "state": STATES,
    "stop reason": STOP_REASONS,
    "reason of a pause": PAUSE_REASONS,
    "verdict of a group": LAG_VERDICTS,
    "verdict of the controller": CONTROL_VERDICTS,
    "forecast": OUTLOOKS,
    "rule of the controller": RULES,
    "verdict of an upgrade": VERSION_VERDICTS,
    "verdict of the truths": TRUTHS,
}
