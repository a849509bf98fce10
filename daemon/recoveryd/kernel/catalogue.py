"""Every refusal and failure of recoveryd: stable code, one sentence, one next step, in the order of their numbers.

Codes are made only here. `recoveryctl explain` and docs/errors.md are generated from this catalogue, the wire answers
with it, and the core refers to it by name. A code is never reused for another meaning.
"""

from enum import StrEnum
from typing import Self


class Code(StrEnum):
    """Stable error codes: the member's name says the cause, its value is what users see. `sentence`: what it means;
    `next_step`: what to do next. Both are one sentence.
    """

    _value_: str
    sentence: str
    next_step: str

    def __new__(cls, value: str, sentence: str = "", next_step: str = "") -> Self:  # a look-up has the value only
        code = str.__new__(cls, value)
        code._value_ = value
        code.sentence, code.next_step = sentence, next_step
        return code

    NOT_A_CLOUDEVENT = (
        "RCV-1001",
        "The control record is not a readable CloudEvent.",
        (
            "Send a JSON object with specversion, id, source, type and data; `recoveryctl replay ... --print-record` "
            "shows one."
        ),
    )
    MISSING_ATTRIBUTE = (
        "RCV-1002",
        "A required CloudEvents attribute is missing or has the wrong type.",
        'Add the attribute named in the message: specversion "1.0", id, source and type are required.',
    )
    UNKNOWN_TYPE = (
        "RCV-1003",
        "The record's type is not a command or signal of this release.",
        "Use the type named in the hint, or upgrade the daemon.",
    )
    UNKNOWN_FIELD = (
        "RCV-1004",
        "The record has a field that this command does not know.",
        "Correct it to the field named in the hint; no part of the command was done.",
    )
    INVALID_VALUE = (
        "RCV-1005",
        "A field has a value that is not allowed.",
        "Correct the field named in the message; docs/contract.md lists the allowed values.",
    )
    MISSING_FIELD = (
        "RCV-1006",
        "A required field is missing.",
        "Add the field named in the message.",
    )
    INVALID_SUBJECT = (
        "RCV-1007",
        "The subject is not a valid recovery id.",
        "Use 1 to 63 characters of a-z, 0-9, dot, underscore and hyphen, and start with a letter or digit.",
    )
    ID_IN_USE = (
        "RCV-1008",
        "A recovery with this id exists already.",
        "Choose another subject (`--id`), or look at the existing one with `recoveryctl describe ID`.",
    )
    IDEMPOTENCY_CONFLICT = (
        "RCV-1009",
        "The same id and source were used before with other content.",
        "Give the new command a new id; the id with source is its idempotency key.",
    )
    NO_SUCH_RECOVERY = (
        "RCV-1010",
        "Nothing has this id.",
        "List the known ones with `recoveryctl list`.",
    )
    NOT_IN_THIS_STATE = (
        "RCV-1011",
        "The command is not possible in the recovery's present state.",
        "Look at the state with `recoveryctl get ID`; docs/operations.md says which commands each state takes.",
    )
    STALE_PLAN = (
        "RCV-1012",
        "The plan made now differs from the one that was approved.",
        "Make a new plan with `--plan-only`, look at what changed, and send its hash.",
    )
    EXPIRED = (
        "RCV-1013",
        "The command came after its expirytime.",
        "Send it again with a later expirytime, if it is still wanted.",
    )
    TOO_LARGE = (
        "RCV-1014",
        "The control record is larger or nested deeper than allowed.",
        "Keep commands under 1 MiB, 32 levels and the counts named in the message.",
    )
    ZONE_MISSING = (
        "RCV-1015",
        "A time has no time zone.",
        "Write the time with Z or an offset, for instance 2026-11-21T06:00:00Z.",
    )
    UNKNOWN_CLUSTER = (
        "RCV-1016",
        "The command names a cluster that the daemon's config does not have.",
        "Use a name under `clusters:` of the config; `recoveryctl config show` lists them.",
    )
    UNKNOWN_PROFILE = (
        "RCV-1017",
        "The command names a Spark profile that the daemon's config does not have.",
        "Use a name under `profiles:` of the config; `recoveryctl config show` lists them.",
    )
    INTERNAL_TOPIC = (
        "RCV-1018",
        "Internal topics and recoveryd's own topics cannot be a source or target.",
        "Choose a topic whose name does not start with an underscore and that is none of recoveryd's own.",
    )
    SAME_TOPIC = (
        "RCV-1019",
        "Source and target are the same topic.",
        "Choose another target topic; a topic copied into itself would never end.",
    )
    TOO_MANY_RECOVERIES = (
        "RCV-1020",
        "As many recoveries run as the config allows.",
        "Wait until one ends or stop one, or raise `limits.max_active_recoveries`.",
    )
    REJECTED_BY_OPERATOR = (
        "RCV-1021",
        "The plan was rejected by an operator.",
        "Ask who rejected it; the reason is in its event.",
    )
    APPROVAL_EXPIRED = (
        "RCV-1022",
        "Nobody approved the plan in time.",
        "Send the command again and have it approved in time.",
    )
    LIVE_OVER_SLO = (
        "RCV-1023",
        "Protected live traffic is over its SLO already, so a replay would add to it unseen.",
        "Wait until it is well, see `recoveryctl lag`; or set `limits.override_live_slo` to start in spite of it.",
    )
    LIVE_UNKNOWN = (
        "RCV-1024",
        "Nothing is known of the live traffic that the recovery must yield to.",
        (
            "It goes on by itself once live traffic is measured again; to go on without, send `throttle` with mode "
            "fixed or unlimited."
        ),
    )
    TOO_MANY_PARTITIONS = (
        "RCV-1025",
        "One recovery would have more partitions than its status record can hold.",
        "Send one command for some of the partitions after the other (`source.partitions`).",
    )
    UNKNOWN_WEBHOOK = (
        "RCV-1030",
        "The command names a webhook that the daemon's config does not have.",
        "Use a name under `webhooks:` of the config; `recoveryctl config show` lists them.",
    )
    NOT_FOR_THIS_KIND = (
        "RCV-1031",
        "The command is not possible for a watch or a schedule, which copies nothing.",
        "End the watch or schedule with `recoveryctl stop ID --reason TEXT`, or name a replay.",
    )
    TOO_MANY_WATCHES = (
        "RCV-1032",
        "As many watches are active as one daemon allows.",
        "Wait until one ends, or stop one that is no longer needed.",
    )
    TOO_MANY_SCHEDULES = (
        "RCV-1033",
        "As many schedules are active as one daemon allows.",
        "End one that is no longer needed with `recoveryctl schedule remove ID --reason TEXT`.",
    )
    UNKNOWN_UNIT = (
        "RCV-1040",
        "The config has no unit of this name.",
        "Use a name under `units`; `recoveryctl unit list` shows them.",
    )
    NOTHING_TO_DO = (
        "RCV-1041",
        "The command would change nothing.",
        "Name what is to be changed; the message says what was looked at.",
    )
    GROUP_TYPE = (
        "RCV-1042",
        "The group is of a type that this cannot be done to.",
        "Use the tool of Kafka that the message names.",
    )
    NOT_AN_APPROVER = (
        "RCV-1043",
        "Whoever sent this may not approve it.",
        "Have it approved by one of those whom the message names, who did not ask for it (docs/units.md).",
    )
    IN_USE = (
        "RCV-1044",
        "Another workflow works on the same group, or takes the topic away.",
        "Wait for it, or stop it; the message names it.",
    )
    NO_SUCH_SAVEPOINT = (
        "RCV-1045",
        "There is no completed savepoint of this name.",
        "`recoveryctl savepoint list` shows them.",
    )
    TOO_MANY_CHANGES = (
        "RCV-1046",
        "One workflow would change more than its status record can hold.",
        "Send one command for some of the topics after the other.",
    )
    UNIT_WATCHED = (
        "RCV-1047",
        "A watch that stops the application of a unit, and a workflow on its group, would get in each other's way.",
        "Wait for the one that the message names, or stop it.",
    )
    NOT_CONFIRMED = (
        "RCV-1048",
        "The unit requires four confirmations before its offsets are set, and one of them is open.",
        "Say it in `confirm` of the command, as the message says; `--plan-only` shows all four.",
    )
    CONTRACT_OPEN = (
        "RCV-1049",
        "The unit requires clauses of its replay contract, and one of them is missing or bad.",
        "Look at `recoveryctl unit contract NAME`, and mend what it names: in the config, or on the cluster.",
    )
    TOPIC_HELD = (
        "RCV-1060",
        "Somebody holds the topic: nothing may be written to it or reset there now.",
        "Ask the owner that the message names; once the hold is released, send the command again under a new id.",
    )
    NOT_HELD = (
        "RCV-1061",
        "Nobody holds this topic, or the hold that was named does not.",
        "Look at `recoveryctl list --state running`; `recoveryctl describe ID` shows the topics of a hold.",
    )
    NOT_THE_HOLDER = (
        "RCV-1062",
        "The topic is held by somebody else, and was not released.",
        (
            "Ask the owner that the message names, or release the hold by its id: "
            "`recoveryctl release --id ID --reason TEXT`."
        ),
    )
    TOO_MANY_HOLDS = (
        "RCV-1063",
        "As many holds are active as one daemon allows.",
        "Release one that is no longer needed, or hold several topics at once.",
    )
    WAIVER_WITHOUT_REASON = (
        "RCV-1070",
        "Gates that are not green can be waived only by somebody who says why.",
        "Send the `ack` again with a note: `recoveryctl ack ID verify --note WHY --reason TEXT`.",
    )
    NOT_READY = (
        "RCV-1071",
        "The gates were not green for the whole `--hold` time, so the shadow cannot be promoted yet.",
        "Wait until the time that the message names, then promote it; `discard` is possible at any time.",
    )
    SOURCE_TOPIC_MISSING = (
        "RCV-2001",
        "The source topic does not exist.",
        "Check the name and the cluster of the source.",
    )
    SOURCE_PARTITION_MISSING = (
        "RCV-2002",
        "A named source partition does not exist.",
        "Name only partitions the topic has.",
    )
    OFFSET_OUTSIDE_LOG = (
        "RCV-2003",
        "An offset is outside of what the log still holds.",
        "Use offsets inside the range named in the message, or `earliest` and `latest`.",
    )
    TARGET_TOPIC_MISSING = (
        "RCV-2004",
        "The target topic does not exist.",
        "Create it, or let the recovery do so with `target.create: true` (`--create`).",
    )
    TARGET_NOT_EMPTY = (
        "RCV-2005",
        "The target has records already.",
        "Choose an empty target, or say `target.on_existing: append` when the records may be mixed.",
    )
    TARGET_PARTITIONS = (
        "RCV-2006",
        "The target has fewer partitions than the mapping needs.",
        "Add partitions to the target, or use `target.mapping: key_hash`.",
    )
    TARGET_IN_USE = (
        "RCV-2007",
        "Another recovery writes to the same target topic.",
        "Wait for it, choose another target, or have both say `target.on_existing: append`.",
    )
    TARGET_COMPACTED = (
        "RCV-2008",
        "The target is compacted, which would remove or refuse records of the copy.",
        "Use a target with cleanup.policy=delete, or one made by `target.create: true`.",
    )
    TARGET_LIMITS = (
        "RCV-2009",
        "The target's settings would refuse records of the range.",
        "Change the setting named in the message on the target topic, then plan again.",
    )
    RANGE_REVERSED = (
        "RCV-2010",
        "The range ends before it starts.",
        "Swap or correct `source.from` and `source.to`.",
    )
    CLUSTER_UNREACHABLE = (
        "RCV-2011",
        "The cluster did not answer in time.",
        "Check the brokers with `recoveryctl doctor`; the command can be sent again.",
    )
    NOT_AUTHORISED = (
        "RCV-2012",
        "The broker refused the daemon's user.",
        "Grant the ACL named in the message to the daemon's principal; docs/acls.md has the whole list.",
    )
    TARGET_CREATE_FAILED = (
        "RCV-2013",
        "The target topic could not be created.",
        "Read the broker's answer in the message.",
    )
    TARGET_RETENTION = (
        "RCV-2014",
        "The target's retention would delete copied records soon after they land.",
        "Set retention.ms=-1 on the target (or longer than the age of the records), then plan again.",
    )
    FEATURE_MISSING = (
        "RCV-2015",
        "The brokers do not answer a request that is needed for this.",
        "`recoveryctl doctor features` lists what the cluster lacks, and what is done without it.",
    )
    SOURCE_CUT_BACK = (
        "RCV-2016",
        "The log of the source ends before the offset at which the range goes on: it was cut back.",
        "See what the source lost, then send a new command whose `from` is inside of what its log holds.",
    )
    GROUP_NOT_EMPTY = (
        "RCV-2040",
        "The consumer group still has members.",
        "Stop every instance of the application; static members leave when their session times out.",
    )
    GROUP_CHANGED = (
        "RCV-2041",
        "Somebody else changed the offsets of the group meanwhile.",
        "Find out who did, then send the command again; nothing of theirs was overwritten.",
    )
    TOPIC_CHANGED = (
        "RCV-2042",
        "A topic is not the one that the plan saw: somebody made it again, or wrote to it.",
        "Look who uses the topic, then begin the workflow anew.",
    )
    INPUT_INCOMPLETE = (
        "RCV-2043",
        "Records that the application would have to process again are no longer there.",
        (
            "Say `accept_missing` with the number that the message names, begin at a later position, or restore the "
            "input first."
        ),
    )
    AMBIGUOUS_TOPICS = (
        "RCV-2044",
        "It is not certain which internal topics belong to the unit.",
        "Give the unit its `topology`, or name its topics under `internal_topics`.",
    )
    VERSIONS_INCOMPATIBLE = (
        "RCV-2045",
        "The new version would not find its state, or what is under way, where the old one left it.",
        "Reprocess, restore a savepoint under another application id, or say `on_incompatible: continue`.",
    )
    INPUT_NOT_CONFIRMED = (
        "RCV-2070",
        "A check before this recovery failed; the message names it. Nothing was changed.",
        "See to what the message names, or send the runbook again with another path, or with `path: escalate`.",
    )
    QUOTA_CHANGED = (
        "RCV-2071",
        "Somebody else changed the quota of a client since the plan was made, so it was not overwritten.",
        "Agree with them, then send the runbook again.",
    )
    DATA_LOST = (
        "RCV-3001",
        "Part of the range was deleted from the source before it was copied.",
        "The exact range is in the message; send a new replay with `on_data_loss: continue` to copy what is left.",
    )
    TOPIC_RECREATED = (
        "RCV-3002",
        "A topic was deleted and created again while the recovery knew the old one.",
        "Check who re-created it, then send the command again, for the new topic.",
    )
    SOURCE_UNAVAILABLE = (
        "RCV-3003",
        "The source cannot be read.",
        "Check the source cluster; then go on with `recoveryctl retry ID`.",
    )
    TARGET_UNAVAILABLE = (
        "RCV-3004",
        "The target cannot be written.",
        "Check the target cluster; then go on with `recoveryctl retry ID`.",
    )
    RECORD_TOO_LARGE = (
        "RCV-3005",
        "A record of the range is larger than the target allows.",
        "Raise max.message.bytes of the target topic, then go on with `recoveryctl retry ID`.",
    )
    ATTEMPTS_EXHAUSTED = (
        "RCV-3006",
        "The Spark application failed several times in a row without progress.",
        (
            "Read the last attempt's log (its path is in the message), mend the cause, then go on with "
            "`recoveryctl retry ID`."
        ),
    )
    VERIFICATION_MISMATCH = (
        "RCV-3007",
        "The target does not hold exactly what the source range holds.",
        "`recoveryctl describe ID` lists the differences; do not use the target before they are understood.",
    )
    UNEXPLAINED_OFFSETS = (
        "RCV-3008",
        "Some offsets of the range are not accounted for.",
        "Keep the target and the receipts topic for analysis, and report the recovery.",
    )
    STALLED = (
        "RCV-3009",
        "The recovery made no progress for too long.",
        "Look at the lanes, or the tasks of the verification, with `recoveryctl describe ID`.",
    )
    LEDGER_BROKEN = (
        "RCV-3010",
        "The receipts do not form one unbroken range.",
        "Keep the receipts topic for analysis, and report the recovery; no further record is written.",
    )
    STOP_BLOCKED = (
        "RCV-3011",
        "Another producer's open transaction hides the end of the range.",
        "Find it with `kafka-transactions.sh find-hanging`, end it, then `recoveryctl retry ID`.",
    )
    LAUNCH_FAILED = (
        "RCV-3012",
        "The Spark application could not be started.",
        "Run `recoveryctl doctor` on the daemon's machine.",
    )
    RECORD_REFUSED = (
        "RCV-3013",
        "A record of the range cannot be written as it is.",
        "Its partition and offset are in the message; replay the ranges before and after it.",
    )
    WATCH_UNFULFILLED = (
        "RCV-3030",
        "The deadline of the watch came before its condition held.",
        "See with `recoveryctl describe ID` which partitions were not that far; then watch again, or see to the group.",
    )
    WEBHOOK_FAILED = (
        "RCV-3031",
        "The condition of the watch held, but its webhook could not be reached.",
        "Do by hand what the webhook should have done; then check the receiver, and `webhooks:` of the config.",
    )
    LAST_END_UNKNOWN = (
        "RCV-3032",
        "Nobody knows where the last run ended, so the schedule stopped.",
        "Find the last copied record of each partition, then make a new schedule whose `first` starts behind it.",
    )
    UNIT_NOT_STOPPED = (
        "RCV-3033",
        "The condition of the watch held, but the application did not stop in time.",
        "Stop it by hand; then look at `recoveryctl unit control NAME`, and at `control` of the unit in the config.",
    )
    SLOTS_MISSING = (
        "RCV-3040",
        "The Spark application has fewer task slots than lanes that have to run at once.",
        (
            "Give the profile more executors or cores, or lower its `task_slots` to what it really gets; then go on "
            "with `recoveryctl retry ID`."
        ),
    )
    EXECUTORS_UNFIT = (
        "RCV-3041",
        "The Python of the Spark executors cannot run the lanes.",
        (
            "Install what the message names on the executors, or name their Python by spark.pyspark.python in the "
            "profile's conf."
        ),
    )
    SPARK_UNSECURED = (
        "RCV-3042",
        "Secrets of client properties would travel unprotected between the Spark driver and its executors.",
        (
            "Set the properties named in the message to true in the profile's conf, or use a local master; "
            "docs/deploy.md has an example."
        ),
    )
    ERROR_RATE = (
        "RCV-3043",
        "Attempts or chunks of the recovery fail too often, although some make progress.",
        (
            "Read the last attempt's log and the `attempt_lost` events, mend the cause or raise the limits under "
            "`attempts`, then go on with `recoveryctl retry ID`."
        ),
    )
    PARTITIONS_UNCOPIED = (
        "RCV-3044",
        "The copy was to have all partitions of the source, and may lack some.",
        "`recoveryctl describe ID` names them; replay them with `--partitions` and `on_existing: append`.",
    )
    RETENTION_RACE = (
        "RCV-3045",
        "Retention of the source is faster than the copy, so it was ended before records are lost.",
        "Raise retention.ms or retention.bytes of the source at once; then go on with `recoveryctl retry ID`.",
    )
    STEP_FAILED = (
        "RCV-3050",
        "A step of a workflow failed.",
        (
            "Read the step's reason with `recoveryctl describe ID`; `recoveryctl rollback ID --reason TEXT` puts back "
            "what was changed."
        ),
    )
    ACK_EXPIRED = (
        "RCV-3051",
        "Nobody answered a step that waits for a person in time.",
        "Do what the step says, then begin the workflow again, or roll it back.",
    )
    NOT_CAUGHT_UP = (
        "RCV-3052",
        "The application made no progress for too long.",
        "Look at the application and its logs; `recoveryctl rollback ID --reason TEXT` puts back what was changed.",
    )
    LEFT_CHANGED = (
        "RCV-3053",
        "The workflow could not undo a temporary change in time; that change is still in place.",
        (
            "Run the commands that `recoveryctl describe ID` names, as somebody who may; `limits.closing_deadline` "
            "says how long it is tried."
        ),
    )
    ESCALATED = (
        "RCV-3070",
        "The runbook was ended and handed over, because a person has to decide what it cannot know.",
        "Read its hand-over with `recoveryctl runbook show ID`; what it had changed can be rolled back.",
    )
    GATES_NOT_GREEN = (
        "RCV-3071",
        "The gates of a runbook did not all become green in the time given, and nobody waived them.",
        "`recoveryctl runbook show ID` names them; mend what they show, or `rollback`, then send the runbook again.",
    )
    CONFIG_UNREADABLE = (
        "RCV-4001",
        "The config file cannot be read.",
        "Check the path and that it is one YAML mapping.",
    )
    CONFIG_UNKNOWN_KEY = (
        "RCV-4002",
        "The config has a key that does not exist.",
        "Correct it to the key named in the hint.",
    )
    CONFIG_INVALID = (
        "RCV-4003",
        "A config value is not allowed.",
        "Correct the key that is named; `recoveryctl config schema` lists all keys.",
    )
    BOOTSTRAP_MISSING = (
        "RCV-4004",
        "No broker address is known.",
        "Give `--bootstrap HOST:PORT`, set RECOVERYD_BOOTSTRAP_SERVERS, or `clusters.main` in a config.",
    )
    OWN_TOPIC_MISSING = (
        "RCV-4005",
        "A topic of recoveryd is missing.",
        "Run `recoveryctl topics apply`.",
    )
    OWN_TOPIC_WRONG = (
        "RCV-4006",
        "A topic of recoveryd has the wrong cleanup policy or partition count.",
        "Correct the topic as the message says; recoveryd never changes an existing topic.",
    )
    JAVA_MISSING = (
        "RCV-4007",
        "No Java 17 or newer was found.",
        "Install it (Debian and Ubuntu: openjdk-17-jre-headless) or set JAVA_HOME.",
    )
    USAGE = (
        "RCV-4008",
        "The command line is not complete or not consistent.",
        "See `recoveryctl VERB --help`.",
    )
    WAIT_TIMED_OUT = (
        "RCV-4009",
        "The recovery did not end in the time given.",
        "It goes on; attach again with `recoveryctl wait ID`.",
    )
    NO_ANSWER = (
        "RCV-4010",
        "The command is on the control topic, but no daemon has answered it yet.",
        "Look for the daemon with `recoveryctl doctor`; it handles the command when it runs, so do not send it again.",
    )
    UNEXPECTED = (
        "RCV-4011",
        "The command line met an error it does not know.",
        "Run it again with `--debug`, and report what it shows.",
    )
    SANDBOX_FAILED = (
        "RCV-4012",
        "The sandbox could not do it.",
        "Read the message; `recoveryctl doctor` checks Java.",
    )
    NO_SUCH_GROUP = (
        "RCV-4013",
        "The daemon does not watch this consumer group.",
        "Name it with its topic under `monitor.topics` of the daemon's config.",
    )
    NO_SUCH_CONTEXT = (
        "RCV-4014",
        "No context of the command line has this name.",
        "`recoveryctl context list` has those that there are.",
    )
    NO_LOG = (
        "RCV-4015",
        "There is no log of this attempt where it was looked for.",
        "Logs are beside the daemon that ran the attempt, of the newest 200: ask that one with `--http`.",
    )
    DAEMON_BUSY = (
        "RCV-4016",
        "More is asked of the daemon's HTTP port at once than it answers.",
        "Ask again in a moment; who asks for pages has to read them within a minute.",
    )
    DAEMON_NOT_LOADED = (
        "RCV-4017",
        "This daemon has not read what is known: it is a standby, or only begins to lead.",
        "Ask the daemon that leads, whose `/readyz` answers 200; one that begins does so in a moment.",
    )
    FENCED = (
        "RCV-5001",
        "Another daemon became the leader.",
        "Nothing to do: the supervisor restarts this one as a standby.",
    )
    INVARIANT_BROKEN = (
        "RCV-5002",
        "The daemon found one of its own invariants broken: it left, or put aside the record that showed it.",
        "Report it with the log.",
    )
    COMMITS_STALLED = (
        "RCV-5003",
        "Control records are handled but their offsets are no longer committed, or the group delivers none any more.",
        "Nothing to do: the supervisor restarts the daemon; report it if it repeats.",
    )
