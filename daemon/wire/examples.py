"""One good record of each kind, for the schemas, the docs and the tests. Each command and signal is taken by the codec as it stands."""

from typing import Any, Final

_HASH: Final = "sha256:" + "5f" * 32


def _command(verb: str, data: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"0199f0c2-6a1e-7c3d-9a55-0000000000{number:02d}",
        "source": "//ops/alice",
        "type": f"io.recoveryd.command.{verb}.v1",
        "subject": "flights-rerun",
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

SIGNALS: Final[dict[str, dict[str, Any]]] = {
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
        "target": {"cluster": "main", "topic": "flights.v42", "topic_id": "k1Xb2m7bTZe0m9o2o9c2sw", "partitions": 1},
        "records_at_most": 84000,
        "bytes_at_most": 30_000_000,
        "eta_seconds": {"lo": 4.0, "mid": 6.0, "hi": 12.0},
        "findings": [],
    },
    "progress": {
        "records": 83990,
        "bytes": 29_400_000,
        "lag_records": 0,
        "records_per_s": 0.0,
        "bytes_per_s": 0.0,
        "eta_seconds": 0.0,
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
            "unexplained": 0,
        }
    ],
    "verification": {
        "result": "match",
        "source_records": 83990,
        "target_records": 83990,
        "digest": "c0ffee",
        "differences": [],
        "why": "",
    },
    "internal": {},
}
