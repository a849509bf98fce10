"""Watches to the JSON of the status topic and the HTTP API, and back: `watch_from_document(watch_to_document(w)) == w`.

The envelope is that of every status record; what only watches have stands under `watch`, what only the daemon needs under `internal`.
"""

from typing import Any

from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.watches.model import KIND, Delivery, DeliveryState, Watch, WatchedPartition, WatchProgress
from recoveryd.watches.wire.command import watch_from_data, watch_to_data
from recoveryd.wire.plain_json import finite
from recoveryd.wire.status_topic import FORMAT, check_format, stop_to_document


def watch_to_document(watch: Watch) -> dict[str, Any]:
    """The status record as JSON values, field for field as in the contract."""
    return {
        "recovery": watch.id,
        "kind": KIND,
        "state": watch.state.value,
        "why": watch.why,
        "version": watch.version,
        "created": format_time_ms(watch.created_ms),
        "updated": format_time_ms(watch.updated_ms),
        "command": {"id": watch.command.id, "source": watch.command.source, "reason": watch.command.reason},
        "error_code": watch.error_code,
        "stop": None if watch.stop is None else stop_to_document(watch.stop),
        "watch": {
            **watch_to_data(watch.spec),
            "progress": _progress(watch.progress),
            "delivery": None if watch.delivery is None else _delivery(watch.delivery),
        },
        "internal": {
            "format": FORMAT,
            "reached": {topic: sorted(partitions) for topic, partitions in watch.reached.items()},
            "topic_ids": dict(watch.topic_ids),
        },
    }


def watch_from_document(document: dict[str, Any]) -> Watch:
    """What `watch_to_document` wrote. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
    own, internal, command, stop = document["watch"], document["internal"], document["command"], document["stop"]
    check_format(document)
    return Watch(
        id=document["recovery"],
        state=State(document["state"]),
        why=document["why"],
        version=document["version"],
        created_ms=parse_time_ms(document["created"]),
        updated_ms=parse_time_ms(document["updated"]),
        command=CommandRef(command["id"], command["source"], command["reason"]),
        spec=watch_from_data(own),
        progress=_progress_from(own["progress"]),
        reached={topic: frozenset(partitions) for topic, partitions in internal["reached"].items()},
        topic_ids=dict(internal["topic_ids"]),
        stop=None
        if stop is None
        else Stop(StopReason(stop["reason"]), stop["mode"], parse_time_ms(stop["at"]), stop["evidence"]),
        delivery=None if own["delivery"] is None else _delivery_from(own["delivery"]),
        error_code=document["error_code"],
    )


def _progress(progress: WatchProgress) -> dict[str, Any]:
    return {
        "done": progress.done,
        "planned": progress.planned,
        "lag_records": progress.lag_records,
        "lag_seconds": finite(progress.lag_seconds),
        "coverage": finite(progress.coverage) or 0.0,
        "evaluations": progress.evaluations,
        "partitions": [
            {
                "topic": p.topic,
                "partition": p.partition,
                "position": p.position,
                "end": p.end,
                "wanted": p.wanted,
                "verdict": p.verdict,
                "reached": p.reached,
            }
            for p in progress.partitions
        ],
    }


def _progress_from(progress: dict[str, Any]) -> WatchProgress:
    return WatchProgress(
        lag_records=progress["lag_records"],
        lag_seconds=progress["lag_seconds"],
        coverage=progress["coverage"],
        evaluations=progress["evaluations"],
        done=progress["done"],
        planned=progress["planned"],
        partitions=tuple(
            WatchedPartition(
                p["topic"], p["partition"], p["position"], p["end"], p["wanted"], p["verdict"], p["reached"]
            )
            for p in progress["partitions"]
        ),
    )


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "webhook": delivery.webhook,
        "id": delivery.id,
        "state": delivery.state.value,
        "wanted": format_time_ms(delivery.wanted_ms),
        "ended": None if delivery.ended_ms is None else format_time_ms(delivery.ended_ms),
        "status": delivery.status,
        "attempts": delivery.attempts,
        "message": delivery.message,
    }


def _delivery_from(delivery: dict[str, Any]) -> Delivery:
    return Delivery(
        webhook=delivery["webhook"],
        id=delivery["id"],
        state=DeliveryState(delivery["state"]),
        wanted_ms=parse_time_ms(delivery["wanted"]),
        ended_ms=None if delivery["ended"] is None else parse_time_ms(delivery["ended"]),
        status=delivery["status"],
        attempts=delivery["attempts"],
        message=delivery["message"],
    )
