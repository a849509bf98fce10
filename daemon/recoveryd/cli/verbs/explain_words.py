"""What `recoveryctl explain` says besides the catalogue: why a code comes up, an example and the next commands, and
what states, stop reasons, verdicts and rules mean. A test holds that nothing the daemon can say is missing here.
"""

from typing import Final

# By the first digit of a code: why it comes up, and what to type next.
FAMILIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "1": (
        "A command was refused for what it says, or because it does not fit what is there. Nothing was started.",
        ("recoveryctl list", "recoveryctl replay ... --print-record"),
    ),
    "2": (
        "The clusters are not as the command needs them, or do not answer. Nothing was changed.",
        ("recoveryctl doctor", "recoveryctl replay ... --plan-only"),
    ),
    "3": (
        "It happened while a recovery ran. What was copied stays exactly where it is, and receipts know it.",
        ("recoveryctl describe ID", "recoveryctl doctor"),
    ),
    "4": (
        "The command line, a config or this machine is not as it must be.",
        ("recoveryctl config validate", "recoveryctl doctor"),
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
}
STATES: Final[dict[str, tuple[str, str]]] = {
    "requested": ("The command was accepted; nothing was looked at yet.", "recoveryctl watch ID"),
    "planning": ("Offsets, topics and limits are read, and the range is pinned.", "recoveryctl watch ID"),
    "planned": ("A dry run ended: there is a plan, and nothing was started.", "recoveryctl describe ID"),
    "awaiting_approval": ("The plan waits for a person who may approve it.", "recoveryctl approve ID --reason TEXT"),
    "starting": ("A Spark application is launched, or is being found again.", "recoveryctl describe ID"),
    "running": ("It works: lanes copy, or a workflow takes its steps.", "recoveryctl top"),
    "pausing": ("Lanes finish their chunks; nothing new is begun.", "recoveryctl watch ID"),
    "paused": ("Drained at exact positions; it stays so over restarts.", "recoveryctl resume ID --reason TEXT"),
    "stopping": ("Lanes finish their chunks; then it ends for good.", "recoveryctl watch ID"),
    "verifying": ("All is copied; an independent reader compares both sides.", "recoveryctl watch ID"),
    "waiting": ("A workflow waits for a person or for a group to become empty.", "recoveryctl describe ID"),
    "closing": ("Done, but a temporary change is not put back yet; `stop` leaves it.", "recoveryctl describe ID"),
    "completed": ("The range is done, adds up and was verified. Final.", "recoveryctl describe ID"),
    "stopped": ("It ended early on purpose, at exact positions. Final.", "recoveryctl describe ID"),
    "failed": ("It could not go on; the error code says why. Final.", "recoveryctl describe ID"),
    "rejected": ("It was refused, by the daemon or by an approver. Final.", "recoveryctl describe ID"),
    "expired": ("Nobody approved it, or its command came too late. Final.", "recoveryctl describe ID"),
    "rolled_back": ("What a workflow changed was put back. Final.", "recoveryctl describe ID"),
}
STOP_REASONS: Final[dict[str, tuple[str, str]]] = {
    "zero_lag": ("Nothing of the range was left: bounded, or caught up with the head.", "recoveryctl describe ID"),
    "operator": ("Somebody stopped it.", "recoveryctl describe ID"),
    "deadline": ("limits.deadline was reached.", "recoveryctl replay ... --deadline TIME"),
    "max_runtime": ("It ran for limits.max_runtime.", "recoveryctl replay ... --max-runtime 4h"),
    "max_records": ("limits.max_records were copied.", "recoveryctl describe ID"),
    "max_bytes": ("limits.max_bytes were copied.", "recoveryctl describe ID"),
    "event_time": ("Every partition was past records of limits.event_time.", "recoveryctl describe ID"),
    "idle": ("Nothing came for limits.idle.", "recoveryctl describe ID"),
    "stalled": ("No record was copied for attempts.stall_after, though there were some.", "recoveryctl describe ID"),
    "data_lost": ("Retention or deletion took part of the range.", "recoveryctl explain RCV-3001"),
    "topic_recreated": ("A topic has the same name and another id.", "recoveryctl explain RCV-3002"),
    "retention_race": ("Retention deletes faster than the copy reads.", "recoveryctl forecast --window 4d ..."),
    "error_rate": ("Too many chunks had to be done again.", "recoveryctl describe ID"),
    "live_slo": ("Protected live traffic was over its SLO at the floor rate too.", "recoveryctl lag"),
    "source_unavailable": (
        "The source did not answer for too long, refused to be read, or holds a damaged record; `why` says which.",
        "recoveryctl doctor",
    ),
    "target_unavailable": (
        "The target did not answer for too long, refused something, or holds a damaged record; `why` says which.",
        "recoveryctl doctor",
    ),
    "spark_unavailable": ("No Spark application could be started.", "recoveryctl doctor"),
}
LAG_VERDICTS: Final[dict[str, tuple[str, str]]] = {
    "ok": ("The group keeps up.", "recoveryctl lag"),
    "idle": ("Nothing to read, and nothing is missing.", "recoveryctl lag"),
    "catching_up": ("There is lag, and it shrinks.", "recoveryctl lag GROUP"),
    "unknown": ("Not all partitions were measured lately; that is never taken for healthy.", "recoveryctl lag GROUP"),
    "falling_behind": ("There is lag, and it grows although the group commits.", "recoveryctl lag GROUP"),
    "stalled": ("There is lag, members, and no commit.", "recoveryctl diagnose UNIT"),
    "stopped": ("There is lag, and nobody is in the group.", "recoveryctl lag GROUP"),
    "rewound": ("The committed offset went back: a reset, or a replay of its own.", "recoveryctl lag GROUP"),
    "blocked_by_txn": ("A transaction that is open holds the end that may be read.", "recoveryctl lag GROUP"),
    "invalid": ("The committed offset is outside the log.", "recoveryctl reset --group GROUP --to earliest"),
    "data_lost": ("Records were deleted before the group read them.", "recoveryctl lag GROUP"),
}
CONTROL_VERDICTS: Final[dict[str, tuple[str, str]]] = {
    "protected": ("All that is protected is measured, and the rate follows it.", "recoveryctl top"),
    "latency_unprotected": ("No produce latency is measured; only lag steers.", "recoveryctl doctor"),
    "unattributable": ("A signal is bad, and our rate does not move it.", "recoveryctl top"),
    "blind": ("A protected signal is not measured: the rate decays to the floor.", "recoveryctl doctor"),
    "paused": ("A protected signal was not measured for minutes: replays pause.", "recoveryctl doctor"),
    "idle": ("Nothing copies, so there is nothing to decide.", "recoveryctl top"),
}
OUTLOOKS: Final[dict[str, tuple[str, str]]] = {
    "retention_loss": ("Retention deletes part of the range before it is copied.", "recoveryctl forecast ..."),
    "impractical_never": ("The live rate is at least the replay's: it never catches up.", "recoveryctl forecast ..."),
    "impractical_slow": ("It ends, but hardly faster than the traffic came in.", "recoveryctl forecast ..."),
    "deadline_miss": ("It ends after the deadline; the forecast names the rate it needs.", "recoveryctl forecast ..."),
    "marginal": ("It ends in time, with little to spare.", "recoveryctl forecast ..."),
    "ok": ("It ends in time.", "recoveryctl replay ..."),
}
# By number, as in docs/policies/throttle.md.
RULES: Final[dict[str, tuple[str, str]]] = {
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
    "protect": ("8: nothing is protected, so nothing limits.", "recoveryctl doctor"),
    "foreign": (
        "9: live traffic is at its SLO, or was just now, maybe not because of us; nothing rises meanwhile.",
        "recoveryctl top",
    ),
}
TABLES: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "state": STATES,
    "stop reason": STOP_REASONS,
    "verdict of a group": LAG_VERDICTS,
    "verdict of the controller": CONTROL_VERDICTS,
    "forecast": OUTLOOKS,
    "rule of the controller": RULES,
}
