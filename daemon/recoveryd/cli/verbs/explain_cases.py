"""Of each word that `recoveryctl explain` knows, why it comes up and an example. What the words mean stands in
`explain_words`; a test holds that no word is without its case.
"""

from typing import Final

Case = tuple[str, str]  # the cause, an example

CASES: Final[dict[str, dict[str, Case]]] = {
    "state": {
        "requested": ("A command was read.", "`from` of the event `recovery_planning`."),
        "planning": (
            "The plan needs the clusters: offsets, retention, what is in the target.",
            "A source of 1,000 partitions stays here for a few seconds.",
        ),
        "planned": ("The command was a dry run.", "`recoveryctl replay ... --plan-only`."),
        "awaiting_approval": (
            "The plan is beyond approval.above_bytes or above_records, nobody says what doubled records do to those who read the target, or the unit has `approvers` or a rule of `approvals:` asks for somebody.",
            "A reset of a unit with two `approvers`, by one of them: the other one has to approve it.",
        ),
        "starting": (
            "The plan is approved, an attempt ended without being told to, or a new daemon leads.",
            "A pod of the application was evicted, and attempt 2 begins.",
        ),
        "running": ("Nothing is in the way.", "`recoveryctl list --state running`."),
        "pausing": ("Somebody paused it, or the daemon did.", "`recoveryctl pause ID` while a chunk is open."),
        "paused": (
            "Somebody paused it, a topic is held, or live traffic comes first; `why` says which.",
            "Until `recoveryctl resume ID`, or by itself where the daemon paused it for what passes.",
        ),
        "stopping": ("Somebody stopped it, or a policy did; `stop.reason` says which.", "`recoveryctl stop ID`."),
        "verifying": ("The copy is done, or the command is `verify`.", "`--verify digest` reads both sides once more."),
        "waiting": (
            "A step needs what the workflow cannot do by itself.",
            "A reset waits until the last member has left the group.",
        ),
        "closing": (
            "A workflow is done, and something that it set for a time is still set.",
            "A retention that was raised for a reprocess, and a broker that does not answer.",
        ),
        "completed": (
            "Everything was done; `verification.result` says what a comparison found.",
            "Exit code 0 of `recoveryctl wait ID`, and 9 where a `verify` found differences.",
        ),
        "stopped": (
            "An operator or a limit ended it before its range was done.",
            "`--max-runtime 4h` was over with a third of the range left.",
        ),
        "failed": (
            "Trying again by itself would not help, or did not.",
            "The target was deleted while the copy ran.",
        ),
        "rejected": (
            "It does not fit what is there, or an approver said no.",
            "`recoveryctl reject ID`, or a target that has records already.",
        ),
        "expired": ("A time was over before it began.", "Nobody approved the plan within approval.ttl."),
        "rolled_back": ("Somebody took the workflow back.", "`recoveryctl rollback ID` after a reset."),
    },
    "stop reason": {
        "zero_lag": (
            "All positions reached the pinned end; with `to: caught_up` each was near the head, three times in a row.",
            "A replay `--to latest` whose last partition is done.",
        ),
        "operator": ("A `stop` command came.", "`recoveryctl stop ID`; `why` says who sent it."),
        "deadline": (
            "The time of day that the command allows was reached; pauses count.",
            "`--deadline 2026-11-21T06:00:00Z`, and live traffic kept the rate low all night.",
        ),
        "max_runtime": (
            "It was let run for so long from the first attempt; pauses and restarts count.",
            "`--max-runtime 4h`, of which it was paused for three.",
        ),
        "max_records": ("All lanes together copied as many records as allowed.", "`--max-records 1000` for a trial."),
        "max_bytes": ("All lanes together copied as many bytes as allowed.", "`--max-bytes 1GB` for a trial."),
        "event_time": (
            "Records of this time were passed in each partition, or nothing came there for limits.idle.",
            "A copy of one day out of a topic that goes on.",
        ),
        "idle": (
            "Every partition was at its end for limits.idle.",
            "A copy that follows a topic to which nobody writes any more.",
        ),
        "stalled": (
            "A lane hangs, or waits for what does not answer, in two attempts in a row.",
            "A broker takes connections and answers no fetch.",
        ),
        "data_lost": (
            "Retention or DeleteRecords was faster than the copy, and on_data_loss is `fail`.",
            "retention.ms was lowered to an hour while three days were copied.",
        ),
        "topic_recreated": (
            "Somebody deleted source or target and made it again.",
            "A script that resets a test environment ran against this cluster.",
        ),
        "retention_race": (
            "Two forecasts in a row see records deleted before the copy is there.",
            "Live traffic keeps the replay at its floor, and the log start moves faster.",
        ),
        "error_rate": (
            "Attempts, or chunks of a lane, failed too often in an hour (attempts.max_failures_per_hour, max_failed_chunks_per_hour: RCV-3043), or attempts in a row without progress (attempts.max_failures: RCV-3006).",
            "Executors are killed for lack of memory in each attempt.",
        ),
        "live_slo": (
            "At its floor for eleven minutes, with a protected signal over its SLO: the replay is not all of the cause.",
            "A consumer group that is behind since its deploy, and a replay beside it.",
        ),
        "source_unavailable": (
            "Brokers are down, the topic is gone, or the daemon's user may not read it any more.",
            "An ACL was removed while the copy ran.",
        ),
        "target_unavailable": (
            "Brokers are down, the topic is gone, or a record is refused there.",
            "max.message.bytes of the target is less than that of the source.",
        ),
        "spark_unavailable": (
            "The profile does not lead to a Spark that can run the job.",
            "The master does not answer, or has fewer slots than the copy has lanes.",
        ),
    },
    "reason of a pause": {
        "telemetry": (
            "A protected signal was not measured for five minutes; what is not known cannot be protected.",
            "Prometheus restarts, or the brokers of a protected group do not answer.",
        ),
        "live_slo": (
            "At its floor for eleven minutes, with a protected signal over its SLO.",
            "Live traffic of a sale: the replay waits until somebody says that it may go on.",
        ),
        "topic_held": (
            "Somebody placed a hold on its target, or on its source with --reads.",
            "`recoveryctl hold orders-fixed --reason 'being corrected'` while a replay writes there.",
        ),
        "leaving": (
            "The daemon runs for a given time only, and the time is over or nothing else is left to do.",
            "A daemon that a scheduler starts each night with --once: what it had not done rests until the next night.",
        ),
    },
    "verdict of a group": {
        "ok": ("Its lag is what comes in between two commits, or goes up and down.", "A healthy group all day."),
        "idle": ("The group is at the end, and nothing comes.", "A topic to which nobody writes at night."),
        "catching_up": ("The group reads faster than records come.", "After a deploy, or a reset to earlier."),
        "unknown": (
            "Too few samples, none lately, or no committed offset.",
            "In the first minute after the daemon's start, or of a group that never committed.",
        ),
        "falling_behind": ("The group is slower than its input.", "Twice the traffic, and as many members as before."),
        "stalled": ("Members are there, and the position does not move.", "A poison record on which each try fails."),
        "stopped": ("The application is down, or hangs.", "Its Deployment was scaled to 0."),
        "rewound": ("Somebody set the offsets back.", "`kafka-consumer-groups --reset-offsets --to-earliest`."),
        "blocked_by_txn": (
            "A producer neither committed nor aborted its transaction.",
            "It was killed in the middle, and its transaction.timeout.ms is an hour.",
        ),
        "invalid": (
            "The offset is of another log than the one there is, or was set ahead.",
            "The topic was made anew under the same name, and the group kept its offsets.",
        ),
        "data_lost": (
            "Retention was faster than the group.",
            "A group that stood for a week, and retention.ms of three days.",
        ),
    },
    "verdict of the controller": {
        "protected": ("All signals are fresh, a latency among them.", "A replay at night beside quiet live traffic."),
        "latency_unprotected": (
            "No canary, and no other latency under `monitor:`.",
            "`monitor.topics` alone: harm is seen only once a group is behind.",
        ),
        "unattributable": (
            "At the floor for three loop delays, and the signal stayed bad.",
            "A broker's disk is full of compactions, whatever the replay does.",
        ),
        "blind": (
            "A sample is older than a loop delay, or there never was one.",
            "The canary's topic was deleted.",
        ),
        "paused": (
            "A sample is older than five minutes, and control.pause_allowed is true.",
            "Prometheus is down for the night.",
        ),
        "idle": ("No recovery is bound by this controller now.", "Each day between two replays."),
    },
    "forecast": {
        "retention_loss": (
            "The log start comes closer than the copy gets on.",
            "Three days to copy, of a topic that keeps four, at a third of real time.",
        ),
        "impractical_never": (
            "With an end that moves, the rate is hardly more than what comes in.",
            "`--to caught_up` at 5 MB/s where 6 MB/s are written.",
        ),
        "impractical_slow": (
            "It copies at less than twice the speed at which the records came.",
            "A week of records takes four days.",
        ),
        "deadline_miss": (
            "At the rate of now the range takes longer than there is time.",
            "`--deadline` in two hours, and three to go.",
        ),
        "marginal": (
            "It copies at two to five times the speed at which the records came.",
            "A little more live traffic, and it takes twice as long.",
        ),
        "ok": ("None of the others applies.", "An hour of records in four minutes."),
    },
    "rule of the controller": {
        "stale": (
            "A sample of a protected signal is older than a loop delay.",
            "A broker stands, and its canary with it: x0.8 per period, down to the floor; after 5 min a pause.",
        ),
        "gate": (
            "The samples at hand were taken before the last step had an effect.",
            "After a cut it holds for a loop delay, so that one rise is not answered by five cuts.",
        ),
        "guard": (
            "A latency or a lag of live traffic is over its SLO, and a raise of ours may be why.",
            "Canary at 260 ms with an SLO of 200 ms: the rate is cut at once.",
        ),
        "slow_start": (
            "Little of each SLO is used, as at the start of a replay or at night.",
            "From 10 % of the ceiling to all of it within some loop delays.",
        ),
        "track": (
            "The worst signal is near control.target_pressure (0.6), above or below.",
            "Live traffic grows towards noon, and the rate goes down with it.",
        ),
        "no_windup": (
            "Lanes use less than 80 % of what they were granted: something else limits them.",
            "A slow source, or too few cores: a higher rate would only be saved up for a burst.",
        ),
        "publish": (
            "What the other rules want is beyond floor or ceiling, or hardly differs from what lanes were told.",
            "A raise of 3 %: lanes hear of it once it is 5 %.",
        ),
        "protect": (
            "Nothing of what is listed presses, nothing wants to copy, or our rate does not move what presses.",
            "At its floor for three loop delays, and a signal that stays bad: it is not caused by the replay.",
        ),
        "foreign": (
            "A latency rose to its SLO and no raise of ours came before it, or a cut changed nothing.",
            "A batch job of somebody else: nothing rises for three loop delays.",
        ),
    },
    "verdict of an upgrade": {
        "compatible": (
            "All stores and repartition topics of the old version have the same names in the new one.",
            "A new filter() at the end of the topology.",
        ),
        "unknown": (
            "The texts of the topologies do not tell, so a person has to.",
            "A step with a generated name, of which there are two alike.",
        ),
        "incompatible": (
            "A store or a repartition topic would not be found again.",
            "An aggregation without a name: its number moved, and its changelog would be a new one.",
        ),
    },
    "verdict of the truths": {
        "aligned": ("Sink, state and offsets are of the same point.", "An application that is exactly once."),
        "sink_ahead": (
            "The application died between its write and its commit.",
            "40 orders are in the sink that will be read and written again.",
        ),
        "sink_behind": (
            "Offsets were committed before the sink had the records.",
            "Auto-commit, and a crash with a full buffer.",
        ),
        "state_stale": (
            "State was restored, or lost, without the offsets.",
            "A checkpoint of yesterday with offsets of today.",
        ),
        "unknown": ("One of the three was not told.", "A sink outside of Kafka, and no --sink."),
    },
}
