"""The specification of a recovery in the form of the command's data, with every default written out.

The status record keeps it this way, so that what was asked for reads like what was sent. Unlike `recoveryd.replay.wire` this trusts its input: it was
validated when the command came in. Times are absolute here.
"""

from collections.abc import Callable
from typing import Any, Final

from recoveryd.kernel.times import format_duration_ms, format_time_ms, parse_duration_ms, parse_time_ms
from recoveryd.recovery.spec import (
    AtOffset,
    AtOffsets,
    AtTime,
    CaughtUp,
    Earliest,
    From,
    Latest,
    Limits,
    Never,
    SourceRef,
    Spec,
    To,
)
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd.verification.spec import ComparedRef, VerificationSpec

_EARLIEST: Final = Earliest()
_NO_LIMITS: Final = Limits()
_TO_WORDS: Final[dict[str, To]] = {"latest": Latest(), "caught_up": CaughtUp(), "never": Never()}


def spec_to_data(spec: Spec) -> dict[str, Any]:
    """The fields of the data of the command that began it, apart from `reason`."""
    match spec:
        case ReplaySpec():
            return _replay_to_data(spec)
        case VerificationSpec():
            return _verification_to_data(spec)
        case _:
            raise TypeError(f"the kind {spec.kind} has no form here")


def spec_from_data(kind: str, data: dict[str, Any]) -> Spec:
    """What `spec_to_data` wrote for a recovery of this kind. Raises KeyError, TypeError or ValueError for anything else."""
    return _READERS[kind](data)


def _replay_to_data(spec: ReplaySpec) -> dict[str, Any]:
    target = spec.target
    return {
        "dry_run": spec.dry_run,
        "plan_hash": spec.plan_hash,
        "source": _source_to_data(spec.source),
        "target": {
            "cluster": target.cluster,
            "topic": target.topic,
            "create": target.create,
            "on_existing": target.on_existing,
            "mapping": target.mapping,
            "headers": _headers_to_data(target),
        },
        "limits": limits_to_data(spec.limits),
        "on_data_loss": spec.on_data_loss,
        "verify": spec.verify,
        "job": {"profile": spec.profile},
    }


def _verification_to_data(spec: VerificationSpec) -> dict[str, Any]:
    target = spec.target
    return {
        "dry_run": spec.dry_run,
        "plan_hash": spec.plan_hash,
        "source": _source_to_data(spec.source),
        "target": {
            "cluster": target.cluster,
            "topic": target.topic,
            "from": None if target.start is None else _bound_to_data(target.start),
        },
        "mapping": target.mapping,
        "headers": _headers_to_data(target),
        "compare": spec.compare,
        "limits": limits_to_data(spec.limits),
        "job": {"profile": spec.profile},
    }


def _replay_from_data(data: dict[str, Any]) -> ReplaySpec:
    target = data["target"]
    return ReplaySpec(
        source=_source_from_data(data["source"]),
        target=TargetRef(
            topic=target["topic"],
            cluster=target["cluster"],
            create=target["create"],
            on_existing=target["on_existing"],
            mapping=target["mapping"],
            headers_add=tuple(target["headers"]["add"].items()),
            headers_drop=tuple(target["headers"]["drop"]),
        ),
        limits=limits_from_data(data["limits"]),
        dry_run=data["dry_run"],
        plan_hash=data["plan_hash"],
        on_data_loss=data["on_data_loss"],
        verify=data["verify"],
        profile=data["job"]["profile"],
    )


def _verification_from_data(data: dict[str, Any]) -> VerificationSpec:
    target, headers = data["target"], data["headers"]
    return VerificationSpec(
        source=_source_from_data(data["source"]),
        target=ComparedRef(
            topic=target["topic"],
            cluster=target["cluster"],
            start=None if target["from"] is None else _from_from_data(target["from"]),
            mapping=data["mapping"],
            headers_add=tuple(headers["add"].items()),
            headers_drop=tuple(headers["drop"]),
        ),
        limits=limits_from_data(data["limits"]),
        dry_run=data["dry_run"],
        plan_hash=data["plan_hash"],
        compare=data["compare"],
        profile=data["job"]["profile"],
    )


def _source_to_data(source: SourceRef) -> dict[str, Any]:
    return {
        "cluster": source.cluster,
        "topic": source.topic,
        "partitions": None if source.partitions is None else list(source.partitions),
        "from": _bound_to_data(source.start),
        "to": _bound_to_data(source.stop),
    }


def _source_from_data(source: dict[str, Any]) -> SourceRef:
    partitions = source["partitions"]
    return SourceRef(
        topic=source["topic"],
        start=_from_from_data(source["from"]),
        stop=_to_from_data(source["to"]),
        cluster=source["cluster"],
        partitions=None if partitions is None else tuple(partitions),
    )


def _headers_to_data(target: TargetRef | ComparedRef) -> dict[str, Any]:
    return {"add": dict(target.headers_add), "drop": list(target.headers_drop)}


def limits_to_data(limits: Limits) -> dict[str, Any]:
    """The limits that are set, by their names in the contract."""
    data = {
        "max_bytes_per_s": limits.max_bytes_per_s,
        "max_records_per_s": limits.max_records_per_s,
        "max_bytes": limits.max_bytes,
        "max_records": limits.max_records,
        "max_runtime": None if limits.max_runtime_ms is None else format_duration_ms(limits.max_runtime_ms),
        "deadline": None if limits.deadline_ms is None else format_time_ms(limits.deadline_ms),
        "event_time": None if limits.event_time_ms is None else format_time_ms(limits.event_time_ms),
        "idle": None if limits.idle_ms is None else format_duration_ms(limits.idle_ms),
        "mode": limits.mode,
        "weight": None if limits.weight == _NO_LIMITS.weight else limits.weight,
        "tier": limits.tier or None,
        "override_live_slo": limits.override_live_slo or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def limits_from_data(data: dict[str, Any]) -> Limits:
    if not data:
        return Limits()
    runtime, deadline = data.get("max_runtime"), data.get("deadline")
    event_time, idle = data.get("event_time"), data.get("idle")
    return Limits(
        max_bytes_per_s=data.get("max_bytes_per_s"),
        max_records_per_s=data.get("max_records_per_s"),
        max_bytes=data.get("max_bytes"),
        max_records=data.get("max_records"),
        max_runtime_ms=None if runtime is None else parse_duration_ms(runtime),
        deadline_ms=None if deadline is None else parse_time_ms(deadline),
        event_time_ms=None if event_time is None else parse_time_ms(event_time),
        idle_ms=None if idle is None else parse_duration_ms(idle),
        mode=data.get("mode"),
        weight=data.get("weight", _NO_LIMITS.weight),
        tier=data.get("tier", _NO_LIMITS.tier),
        override_live_slo=data.get("override_live_slo", _NO_LIMITS.override_live_slo),
    )


def _bound_to_data(bound: From | To) -> Any:
    match bound:
        case AtOffset(offset):
            return {"offset": offset}
        case AtOffsets(offsets):
            return {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
        case AtTime(time_ms):
            return format_time_ms(time_ms)
        case Earliest():
            return "earliest"
        case word:
            return next(name for name, meaning in _TO_WORDS.items() if meaning == word)


def _from_from_data(data: Any) -> From:
    return _EARLIEST if data == "earliest" else _place_from_data(data)


def _to_from_data(data: Any) -> To:
    word = _TO_WORDS.get(data) if isinstance(data, str) else None
    return _place_from_data(data) if word is None else word


def _place_from_data(data: Any) -> AtOffset | AtOffsets | AtTime:
    if isinstance(data, str):
        return AtTime(parse_time_ms(data))
    if "offset" in data:
        return AtOffset(data["offset"])
    return AtOffsets({int(partition): offset for partition, offset in data["offsets"].items()})


_READERS: Final[dict[str, Callable[[dict[str, Any]], Spec]]] = {
    ReplaySpec.kind: _replay_from_data,
    VerificationSpec.kind: _verification_from_data,
}
