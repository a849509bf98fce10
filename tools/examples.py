"""One valid record of each kind, for the schemas, the docs and the tests. The codec accepts each command and signal
unchanged.
"""

from typing import Any, Final

_HASH: Final = "sha256:" + "5f" * 32


def _command(verb: str, data: dict[str, Any], number: int, subject: str = "flights-rerun") -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"0199f0c2-6a1e-7c3d-9a55-0000000000{number:02d}",
        "source": "//ops/alice",
        "type": f"io.recoveryd.command.{verb}.v1",
        "subject": subject,
        "time": "2026-11-21T06:00:00Z",
        "expirytime": "2026-11-21T06:15:00Z",
        "data": data,
    }


COMMANDS: Final[dict[str, dict[str, Any]]] = {
    "replay": _command(
        "replay",
        {
            "reason": "wrong delay unit in v41",
            "source": {"topic": "flights", "from": "earliest", "to": "latest"},
            "target": {"topic": "flights.v42", "create": True},
        },
        1,
    ),
    "pause": _command("pause", {"reason": "maintenance of the target"}, 2),
    "resume": _command("resume", {"reason": "maintenance is over"}, 3),
    "stop": _command("stop", {"reason": "enough for the comparison"}, 4),
    "throttle": _command("throttle", {"reason": "peak hour", "limits": {"max_bytes_per_s": 5_000_000}}, 5),
    "approve": _command("approve", {"reason": "checked with the data team", "plan_hash": _HASH}, 6),
    "reject": _command("reject", {"reason": "wrong range", "plan_hash": _HASH}, 7),
    "verify": _command(
        "verify",
        {
            "reason": "is the mirror in the other region whole?",
            "source": {"topic": "flights", "from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"},
            "target": {"cluster": "other", "topic": "flights"},
            "limits": {"max_bytes_per_s": 20_000_000},
        },
        13,
        "flights-mirror-check",
    ),
    "reset": _command(
        "reset",
        {
            "reason": "a bug since Friday, fixed in v43",
            "unit": "order-processor",
            "to": "2026-11-20T00:00:00Z",
            "state": "keep",
        },
        16,
        "orders-again",
    ),
    "rollback": _command("rollback", {"reason": "the wrong Friday"}, 17, "orders-again"),
    "reprocess": _command(
        "reprocess",
        {
            "reason": "totals were too high since v43",
            "unit": "order-processor",
            "from": "earliest",
            "outputs": {"customer-totals": "recreate", "order-log": {"new": "order-log.v44"}},
        },
        18,
        "orders-from-scratch",
    ),
    "savepoint": _command(
        "savepoint",
        {"reason": "before v44", "unit": "order-processor", "name": "before-v44"},
        21,
        "orders-cut",
    ),
    "restore_savepoint": _command(
        "restore_savepoint",
        {
            "reason": "v44 beside v43, from the same state",
            "savepoint": "before-v44",
            "to_unit": "order-processor-v44",
            "outputs": {"customer-totals.v44": "recreate"},
        },
        22,
        "orders-v44-from-cut",
    ),
    "upgrade": _command(
        "upgrade",
        {"reason": "v44 rounds as the ledger does", "unit": "order-processor", "to_unit": "order-processor-v44"},
        23,
        "orders-to-v44",
    ),
    "runbook": _command(
        "runbook",
        {
            "reason": "it restarts again and again since the deploy at noon",
            "unit": "order-processor",
            "path": "auto",
            "sink": {"orders": {"0": 84120, "1": 83870}},
            "error_topics": ["orders.dlq"],
            "quotas": {"reports-rerun": 5_000_000},
            "waive": {"live": "nothing else uses this cluster at night"},
        },
        24,
        "orders-runbook",
    ),
    "promote": _command("promote", {"reason": "compared with the ledger"}, 25, "orders-runbook"),
    "discard": _command("discard", {"reason": "two totals are still wrong"}, 26, "orders-runbook"),
    "escalate": _command("escalate", {"reason": "nobody here knows what the sink holds"}, 27, "orders-runbook"),
    "ack": _command(
        "ack",
        {"reason": "both machines are done", "step": "clean_local_state", "note": "state.dir removed on web1 and web2"},
        20,
        "orders-from-scratch",
    ),
    "schedule": _command(
        "schedule",
        {
            "reason": "the corrected topic is kept up each night",
            "cron": "0 2 * * *",
            "time_zone": "Europe/Berlin",
            "overrun": "skip",
            "max_runtime": "4h",
            "command": {
                "verb": "replay",
                "data": {
                    "source": {
                        "topic": "flights",
                        "from": {"schedule": "last_end", "first": "earliest"},
                        "to": "latest",
                    },
                    "target": {"topic": "flights.v42", "create": True, "on_existing": "append"},
                },
            },
        },
        14,
        "flights-nightly",
    ),
    "unschedule": _command("unschedule", {"reason": "v42 is live"}, 15, "flights-nightly"),
    "watch": _command(
        "watch",
        {
            "reason": "stop the rerun of the reports once it has caught up",
            "group": "flights-reports-rerun",
            "topic": "flights",
            "until": "caught_up",
            "then": {"webhook": "stop-rerun"},
            "deadline": "6h",
        },
        10,
        "reports-caught-up",
    ),
    "hold": _command(
        "hold",
        {
            "reason": "the mirror of airports is being corrected until noon",
            "topics": ["airports", "flights.v42"],
            "ttl": "6h",
        },
        20,
        "airports-correction",
    ),
    "release": _command("release", {"reason": "airports are right again"}, 21, "airports-correction"),
}

MORE_REPLAYS: Final[tuple[dict[str, Any], ...]] = (
    _command(
        "replay",
        {
            "reason": "two hours again, then stay with the live head until level",
            "source": {"topic": "flights", "partitions": [0, 2], "from": "-2h", "to": "caught_up"},
            "target": {"topic": "flights.v42", "on_existing": "append", "mapping": "key_hash"},
            "limits": {"max_bytes_per_s": 2e7, "max_runtime": "PT90M", "deadline": "2026-11-21T18:00:00+01:00"},
            "verify": "count",
        },
        8,
    ),
    _command(
        "replay",
        {
            "reason": "the exact range of the incident",
            "dry_run": True,
            "source": {
                "topic": "flights",
                "from": {"offsets": {"0": 1200, "1": 900}},
                "to": "2026-11-20T14:05:00Z",
                "partitions": [0, 1],
            },
            "target": {"topic": "flights.check", "headers": {"add": {"rerun": "42"}, "drop": ["trace"]}},
            "limits": {"max_records": 1_000_000},
            "on_data_loss": "continue",
            "job": {"profile": "default"},
        },
        9,
    ),
)

MORE_VERIFICATIONS: Final[tuple[dict[str, Any], ...]] = (
    _command(
        "verify",
        {
            "reason": "both topics are compacted: is the last value of each customer the same?",
            "source": {"topic": "customers"},
            "target": {"cluster": "other", "topic": "customers", "from": "earliest"},
            "compare": "latest",
            "limits": {"max_runtime": "2h", "mode": "controller"},
        },
        14,
        "customers-check",
    ),
    _command(
        "verify",
        {
            "reason": "a copy by a script of ours, which spread the keys and marked the records",
            "source": {
                "topic": "flights",
                "partitions": [0, 1],
                "from": {"offset": 100},
                "to": {"offsets": {"0": 900, "1": 800}},
            },
            "target": {"topic": "flights.by-script", "from": "earliest"},
            "mapping": "key_hash",
            "headers": {"add": {"copied-by": "script"}, "drop": ["trace"]},
            "dry_run": True,
        },
        15,
        "flights-script-check",
    ),
)

MORE_WATCHES: Final[tuple[dict[str, Any], ...]] = (
    _command(
        "watch",
        {
            "reason": "tell when the incident's range is read",
            "group": "flights-reports",
            "topics": ["flights", "airports"],
            "until": {"offsets": {"flights": {"0": 84000, "1": 51000}, "airports": {"0": 1458}}},
        },
        11,
        "reports-caught-up",
    ),
    _command(
        "watch",
        {
            "reason": "end of the maintenance window",
            "cluster": "main",
            "group": "flights-reports",
            "topic": "flights",
            "until": {"deadline": "2026-11-21T18:00:00+01:00"},
            "then": "notify",
            "tolerance_records": 1,
        },
        12,
        "reports-caught-up",
    ),
)
MORE_HOLDS: Final[tuple[dict[str, Any], ...]] = (
    _command(
        "hold",
        {
            "reason": "delays of a whole day came twice: nobody may copy them before they are sorted out",
            "cluster": "main",
            "topics": ["flights"],
            "reads": True,
            "ttl": "2026-11-22T06:00:00Z",
        },
        22,
        "flights-doubled",
    ),
)
MORE_RELEASES: Final[tuple[dict[str, Any], ...]] = (
    _command(
        "release",
        {"reason": "airports are right, flights.v42 is not yet", "cluster": "main", "topics": ["airports"]},
        23,
        "airports-are-right",
    ),
)
MORE: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "replay": MORE_REPLAYS,
    "verify": MORE_VERIFICATIONS,
    "watch": MORE_WATCHES,
    "schedule": (
        _command(
            "schedule",
            {
                "reason": "the night belongs to the batch",
                "cron": "30 22 * * 1-5",
                "command": {"verb": "pause", "subject": "flights-rerun", "data": {}},
            },
            18,
            "rest-at-night",
        ),
    ),
    "hold": MORE_HOLDS,
    "release": MORE_RELEASES,
}

SIGNALS: Final[dict[str, dict[str, Any]]] = {
    "hold": {
        "specversion": "1.0",
        "id": "0199f0c2-6a1e-7c3d-9a55-0000000000a1",
        "source": "//recoveryd-client/flights-reports",
        "type": "io.recoveryd.signal.hold.v1",
        "time": "2026-11-21T06:00:00Z",
        "data": {
            "hold": "airports-correction",
            "group": "flights-reports",
            "member": "reports-1-6f9a5f0e-2d2c-4c1c-8a38-1f6a0b6d4c11",
            "client": "reports-1",
            "state": "paused",
            "positions": [
                {"topic": "airports", "partition": 0, "offset": 3210},
                {"topic": "airports", "partition": 1, "offset": None},
            ],
        },
    },
    "lag": {
        "specversion": "1.0",
        "id": "lag-000017",
        "source": "//monitor/lag-exporter",
        "type": "io.recoveryd.signal.lag.v1",
        "time": "2026-11-21T06:00:00Z",
        "data": {
            "cluster": "main",
            "group": "flights-reports",
            "topic": "flights",
            "partitions": [
                {"partition": 0, "committed": 83990, "end": 84000, "sampled_at": "2026-11-21T05:59:58Z"},
                {"partition": 1, "committed": None, "end": 84000, "sampled_at": "2026-11-21T05:59:58Z"},
            ],
        },
    },
    "health": {
        "specversion": "1.0",
        "id": "health-000042",
        "source": "//monitor/prometheus",
        "type": "io.recoveryd.signal.health.v1",
        "time": "2026-11-21T06:00:00Z",
        "data": {
            "cluster": "main",
            "name": "produce_latency_p99",
            "value": 0.21,
            "unit": "s",
            "status": "degraded",
            "sampled_at": "2026-11-21T05:59:55Z",
        },
    },
}

ANSWER: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "id": "0199f0c2-7b2f-7d10-8f00-000000000010",
    "source": "//recoveryd/default",
    "type": "io.recoveryd.event.command_rejected.v1",
    "subject": "flights-rerun",
    "time": "2026-11-21T06:00:00.120Z",
    "datacontenttype": "application/json",
    "causationid": "0199f0c2-6a1e-7c3d-9a55-000000000001",
    "data": {
        "code": "RCV-1004",
        "message": "data.source.form is not a field of replay. Also wrong: data.source.from.",
        "hint": "The nearest valid field is data.source.from.",
        "verb": "replay",
        "control_offset": 17,
    },
}

FORECAST: Final[dict[str, Any]] = {
    "outlook": "ok",
    "outlooks": ["ok"],
    "sentence": "5,400 times real time: 16 s",
    "suggestion": "",
    "moving_head": False,
    "eta_seconds": {"lo": 14.2, "mid": 16.0, "hi": 21.0},
    "bounded_seconds": 16.0,
    "moving_seconds": 16.1,
    "speed_up": 5400.0,
    "window_seconds": 43200.0,
    "backlog_records": 84000.0,
    "replay_records_per_s": 10500.0,
    "replay_source": "measured",
    "live_records_per_s": 1.9,
    "live_source": "log times",
    "required_records_per_s": None,
    "deadline_seconds": None,
    "extra_share": None,
    "loss_in_seconds": None,
    "retention_slack_seconds": 561600.0,
    "lost_data_seconds": 0.0,
    "partition": 0,
    "storage": {"replica_bytes": 30_000_000, "all_bytes": 90_000_000, "per_broker_bytes": None},
    "cost": None,
    "at": "2026-11-21T06:00:00.000Z",
}

STATUS: Final[dict[str, Any]] = {
    "recovery": "flights-rerun",
    "kind": "replay",
    "state": "completed",
    "why": "every partition reached its pinned end: zero lag",
    "version": 17,
    "created": "2026-11-21T06:00:00.000Z",
    "updated": "2026-11-21T06:00:31.000Z",
    "command": {"id": COMMANDS["replay"]["id"], "source": "//ops/alice", "reason": "wrong delay unit in v41"},
    "attempt": 1,
    "error_code": None,
    "plan": {
        "hash": _HASH,
        "source": {
            "cluster": "main",
            "topic": "flights",
            "topic_id": "mA9tq3mWQ0mVw1Yb0g6z7A",
            "partitions": [{"partition": 0, "start": 0, "stop": 84000, "at_end": False}],
        },
        "target": {
            "cluster": "main",
            "topic": "flights.v42",
            "topic_id": "k1Xb2m7bTZe0m9o2o9c2sw",
            "partitions": 1,
            "ranges": [],
        },
        "records_at_most": 84000,
        "bytes_at_most": 30_000_000,
        "eta_seconds": {"lo": 4.0, "mid": 6.0, "hi": 12.0},
        "budget": {
            "mode": "unlimited",
            "bytes_per_s": None,
            "floor_bytes_per_s": None,
            "ceiling_bytes_per_s": None,
            "shared_with": 0,
            "domains": [],
            "max_records_per_s": None,
            "weight": 1.0,
            "tier": 0,
            "why": "no limit is asked for",
        },
        "traffic": {"label": "replay", "topic": "flights.v42"},
        "forecast": FORECAST,
        "receipts": {
            "topic": "recovery.receipts.v1",
            "topic_id": "Zr4uQ0mWQ0mVw1Yb0g6z7A",
            "partition": 3,
            "partitions": 8,
            "start": 1200,
        },
        "remote": [],
        "impact": [],
        "contracts": [],
        "findings": [],
    },
    "progress": {
        "records": 83990,
        "bytes": 29_400_000,
        "lag_records": 0,
        "records_per_s": 0.0,
        "bytes_per_s": 0.0,
        "eta_seconds": 0.0,
        "forecast": None,
        "verified_records": 167_980,
        "verified_bytes": 58_800_000,
        "verified_offsets": 168_000,
        "offsets_to_verify": 168_000,
        "partitions": [
            {
                "partition": 0,
                "position": 84000,
                "stop": 84000,
                "state": "done",
                "copied": 83990,
                "filtered": 0,
                "skipped": 10,
                "lost": 0,
                "bytes": 29_400_000,
            }
        ],
    },
    "limits": {"requested": {}, "effective_bytes_per_s": None, "rule": "no limit was asked for"},
    "stop": {"reason": "zero_lag", "mode": "bounded", "at": "2026-11-21T06:00:28.000Z", "evidence": {"lag_records": 0}},
    "completeness": [
        {
            "partition": 0,
            "from": 0,
            "to": 84000,
            "offsets": 84000,
            "copied": 83990,
            "filtered": 0,
            "skipped": 10,
            "lost": 0,
            "min_time": "2026-11-20T00:00:00.000Z",
            "max_time": "2026-11-20T23:19:59.000Z",
            "unexplained": 0,
        }
    ],
    "verification": {
        "result": "match",
        "scope": "source",
        "source_records": 83990,
        "target_records": 83990,
        "extra_records": 0,
        "records_by_receipts": 0,
        "unkeyed_source_records": 0,
        "unkeyed_target_records": 0,
        "target_ends": {"0": 83994},
        "uncopied": {},
        "digest": "c0ffee",
        "differences": [],
        "why": "",
    },
    "internal": {},
}

WATCH_STATUS: Final[dict[str, Any]] = {
    "recovery": "reports-caught-up",
    "kind": "watch",
    "state": "completed",
    "why": "its condition held, and the webhook stop-rerun was told",
    "version": 9,
    "created": "2026-11-21T06:00:00.000Z",
    "updated": "2026-11-21T06:41:12.000Z",
    "command": {
        "id": COMMANDS["watch"]["id"],
        "source": "//ops/alice",
        "reason": "stop the rerun of the reports once it has caught up",
    },
    "error_code": None,
    "stop": {
        "reason": "zero_lag",
        "mode": "caught_up",
        "at": "2026-11-21T06:41:11.000Z",
        "evidence": {
            "partitions_judged": 1,
            "evaluations": 7,
            "span_ms": 30000,
            "partitions": [{"topic": "flights", "partition": 0, "position": 84000, "end": 84000, "lag_records": 0}],
        },
    },
    "watch": {
        "cluster": "main",
        "group": "flights-reports-rerun",
        "topics": ["flights"],
        "until": "caught_up",
        "then": {"webhook": "stop-rerun"},
        "deadline": "2026-11-21T12:00:00.000Z",
        "tolerance_records": 0,
        "progress": {
            "done": 1,
            "planned": 1,
            "lag_records": 0,
            "lag_seconds": 0.0,
            "coverage": 1.0,
            "evaluations": 7,
            "partitions": [],
        },
        "delivery": {
            "webhook": "stop-rerun",
            "id": "5b1de4f6f2c04a3f9c1f2d7a8e9b0c1d",
            "state": "delivered",
            "wanted": "2026-11-21T06:41:11.000Z",
            "ended": "2026-11-21T06:41:12.000Z",
            "status": 204,
            "attempts": 1,
            "message": "204",
        },
        "unit_stop": None,
    },
    "internal": {},
}

_AT: Final = {
    "began": "2026-11-21T06:00:01.000Z",
    "ended": "2026-11-21T06:00:02.000Z",
    "tries": 1,
    "failures": 0,
    "state": "done",
}
WORKFLOW_STATUS: Final[dict[str, Any]] = {
    "recovery": "orders-again",
    "kind": "workflow",
    "state": "completed",
    "why": "1 offsets of order-processor are set, and were read back",
    "version": 12,
    "created": "2026-11-21T06:00:00.000Z",
    "updated": "2026-11-21T06:00:02.000Z",
    "command": {
        "id": COMMANDS["reset"]["id"],
        "source": "//ops/alice",
        "reason": "a bug since Friday, fixed in v43",
    },
    "workflow": "reset",
    "unit": "order-processor",
    "error_code": None,
    "plan": {
        "hash": _HASH,
        "changes": [{"what": "offset", "name": "orders", "partition": 0, "from": 84000, "to": 61200}],
        "contracts": [],
        "findings": [],
        "ambiguous_topics": [],
        "version": None,
        "confirmations": [
            {"item": "retention", "by": "plan", "told": "every position lies inside its log, behind its beginning"},
            {"item": "outputs", "by": "person", "told": "totals are overwritten by key"},
            {"item": "scope", "by": "plan", "told": "1 of 1 partitions of orders"},
            {"item": "owner", "by": "plan", "told": "one of //ops/kim has to approve it"},
        ],
    },
    "steps": [
        {"name": "await_empty", "why": "the group order-processor has no members", "evidence": {}, **_AT},
        {
            "name": "snapshot",
            "why": "noted where order-processor was: 1 offsets in 1 partitions",
            "evidence": {"offsets": 1, "partitions": 1},
            **_AT,
        },
        {
            "name": "set_offsets",
            "why": "1 offsets of order-processor are set, and were read back",
            "evidence": {"offsets": 1},
            **_AT,
        },
    ],
    "waiting_for": None,
    "undo": [
        {
            "what": "offset", "name": "orders", "partition": 0, "to": 84000, "was_set": 61200, "state": "open", "metadata": "",
            "leader_epoch": None, "group": "order-processor", "is_taken": False,
        }
    ],
    "cut": None,
    "stop": None,
    "report": None,
    "internal": {"format": 2},
}  # fmt: skip

SCHEDULE_STATUS: Final[dict[str, Any]] = {
    "recovery": "flights-nightly",
    "kind": "schedule",
    "state": "running",
    "why": "flights-nightly.20261122t0100 is completed: zero_lag: 167,100 records copied and verified (match)",
    "version": 5,
    "created": "2026-11-21T06:00:00.000Z",
    "updated": "2026-11-22T01:04:10.000Z",
    "command": {
        "id": COMMANDS["schedule"]["id"],
        "source": "//ops/alice",
        "reason": "the corrected topic is kept up each night",
    },
    "error_code": None,
    "stop": None,
    "schedule": {
        "cron": "0 2 * * *",
        "command": {
            "verb": "replay",
            "data": {
                "reason": "the corrected topic is kept up each night",
                **COMMANDS["schedule"]["data"]["command"]["data"],
            },
            "subject": None,
        },
        "time_zone": "Europe/Berlin",
        "overrun": "skip",
        "max_runtime": "4h",
        "next_run": "2026-11-23T01:00:00.000Z",
        "queued": None,
        "run": None,
        "last_run": {
            "due": "2026-11-22T01:00:00.000Z",
            "fired": "2026-11-22T01:00:00.000Z",
            "command_id": "schedule:flights-nightly:2026-11-22T01:00:00.000Z",
            "recovery": "flights-nightly.20261122t0100",
            "deadline": "2026-11-22T05:00:00.000Z",
            "data": {},
            "control_offset": 117,
            "answer": {
                "kind": "accepted",
                "code": "",
                "message": "planned: 167,100 records at most in 2 partitions",
            },
            "outcome": "completed",
            "why": "zero_lag: 167,100 records copied and verified (match)",
            "ended": "2026-11-22T01:04:10.000Z",
        },
        "counts": {
            "fired": 1,
            "late": 0,
            "skipped": 0,
            "completed": 1,
            "stopped": 0,
            "failed": 0,
            "refused": 0,
        },
        "last_end": {
            "cluster": "main",
            "topic": "flights",
            "topic_id": "Yz2rBQm1Q3yXbq8xw0l3-A",
            "offsets": {"0": 84000, "1": 83100},
            "recovery": "flights-nightly.20261122t0100",
            "target_topic_id": "b0nVd2u4R3mF1oK7sQx9Lg",
            "since": None,
        },
        "forecast": {"fits": True, "expected": "4m10s", "interval": "24h", "runs": 1},
    },
    "internal": {"format": 2},
}

HOLD_STATUS: Final[dict[str, Any]] = {
    "recovery": "airports-correction",
    "kind": "hold",
    "state": "running",
    "why": "flights.v42 released by //ops/alice: it can be written again; airports still held",
    "version": 2,
    "created": "2026-11-21T06:00:00.000Z",
    "updated": "2026-11-21T06:20:00.000Z",
    "command": {
        "id": COMMANDS["hold"]["id"],
        "source": "//ops/alice",
        "reason": "the mirror of airports is being corrected until noon",
    },
    "stop": None,
    "hold": {
        "cluster": "main",
        "topics": ["airports"],
        "reads": False,
        "expires": "2026-11-21T12:00:00.000Z",
        "released": ["flights.v42"],
        "missing": [],
        "members": [
            {
                "group": "flights-reports",
                "member": "reports-1-6f9a5f0e-2d2c-4c1c-8a38-1f6a0b6d4c11",
                "state": "paused",
                "since": "2026-11-21T06:00:01.000Z",
                "client": "reports-1",
                "positions": [{"topic": "airports", "partition": 0, "offset": 3210}],
            },
            {
                "group": "flights-reports",
                "member": "reports-2-0d5b1c9c-77c1-4b3b-9f0e-5a1d8c1c2b42",
                "state": "silent",
                "since": "2026-11-21T06:00:05.000Z",
                "client": "reports-2",
                "positions": [],
            },
        ],
        "obeyed": [],
    },
    "internal": {},
}
