"""Recoveries to the JSON of the status topic and the HTTP API.

The document has the fields of the contract, for people and programs, and one more, `internal`, with what only the daemon needs to go on after a restart.
`recoveryd.recovery.wire.fold` reads it back: `from_document(to_document(r)) == r` for every recovery. Plain dicts instead of models, because a start folds
thousands of them.
"""

import dataclasses
from typing import Any, Final

from recoveryd.forecast.wire import forecast_to_data
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.model import Attempt, CompletenessRow, Plan, Progress, Recovery
from recoveryd.recovery.wire.spec import limits_to_data, spec_to_data
from recoveryd.wire.plain_json import finite
from recoveryd.wire.status_topic import FORMAT, stop_to_document
from recoveryd_jobs.contract import Verification

# What of a recovery has its own place in the document; every other field goes under `internal` by its own name.
PUBLIC_FIELDS: Final = frozenset(
    {
        "id",
        "kind",
        "state",
        "why",
        "version",
        "created_ms",
        "updated_ms",
        "command",
        "spec",
        "plan",
        "attempt",
        "progress",
        "limits",
        "rule",
        "effective_bytes_per_s",
        "stop",
        "completeness",
        "verification",
        "error_code",
    }
)
# The same for the plan.
PUBLIC_PLAN_FIELDS: Final = frozenset(
    {
        "hash",
        "source",
        "target",
        "partitions",
        "records_at_most",
        "bytes_at_most",
        "eta_seconds",
        "forecast",
        "findings",
        "receipts",
    }
)
_INTERNAL_PLAN_FIELDS: Final = tuple(f.name for f in dataclasses.fields(Plan) if f.name not in PUBLIC_PLAN_FIELDS)
_INTERNAL_FIELDS: Final = tuple(f.name for f in dataclasses.fields(Recovery) if f.name not in PUBLIC_FIELDS)
_ATTEMPT_FIELDS: Final = tuple(f.name for f in dataclasses.fields(Attempt))


def to_document(recovery: Recovery) -> dict[str, Any]:
    """The status record as JSON values, field for field as in the contract."""
    r = recovery
    return {
        "recovery": r.id,
        "kind": r.kind,
        "state": r.state.value,
        "why": r.why,
        "version": r.version,
        "created": format_time_ms(r.created_ms),
        "updated": format_time_ms(r.updated_ms),
        "command": {"id": r.command.id, "source": r.command.source, "reason": r.command.reason},
        "attempt": r.attempt.number,
        "error_code": r.error_code,
        "plan": None if r.plan is None else _plan(r.plan),
        "progress": _progress(r.progress),
        "limits": {
            "requested": limits_to_data(r.limits),
            "effective_bytes_per_s": finite(r.effective_bytes_per_s),
            "rule": r.rule,
        },
        "stop": None if r.stop is None else stop_to_document(r.stop),
        "completeness": [_completeness(row) for row in r.completeness],
        "verification": None if r.verification is None else _verification(r.verification),
        "internal": _internal(r),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    eta = plan.eta_seconds
    return {
        "hash": plan.hash,
        "source": {
            "cluster": plan.source.cluster,
            "topic": plan.source.topic,
            "topic_id": plan.source.topic_id,
            "partitions": [
                {"partition": p.partition, "start": p.start, "stop": p.stop, "at_end": p.at_end}
                for p in plan.partitions
            ],
        },
        "target": {
            "cluster": plan.target.cluster,
            "topic": plan.target.topic,
            "topic_id": plan.target.topic_id,
            "partitions": plan.target.partitions,
            "ranges": _target_ranges(plan),
        },
        "records_at_most": plan.records_at_most,
        "bytes_at_most": plan.bytes_at_most,
        "eta_seconds": None if eta is None else {"lo": finite(eta.lo), "mid": finite(eta.mid), "hi": finite(eta.hi)},
        "forecast": None if plan.forecast is None else forecast_to_data(plan.forecast),
        "receipts": None if plan.receipts is None else dataclasses.asdict(plan.receipts),
        "findings": [{"code": f.code, "severity": f.severity.value, "message": f.message} for f in plan.findings],
    }


def _target_ranges(plan: Plan) -> list[dict[str, int]]:
    """The pinned part of the target, where the plan has one: of a verification."""
    starts = dict(plan.target_starts)
    return [{"partition": p, "start": starts.get(p, 0), "stop": stop} for p, stop in plan.target_stops]


def _progress(progress: Progress) -> dict[str, Any]:
    return {
        "records": progress.records,
        "bytes": progress.bytes,
        "lag_records": progress.lag_records,
        "records_per_s": finite(progress.records_per_s) or 0.0,
        "bytes_per_s": finite(progress.bytes_per_s) or 0.0,
        "eta_seconds": finite(progress.eta_seconds),
        "forecast": None if progress.forecast is None else forecast_to_data(progress.forecast),
        "verified_records": progress.verified_records,
        "verified_bytes": progress.verified_bytes,
        "verified_offsets": progress.verified_offsets,
        "offsets_to_verify": progress.offsets_to_verify,
        "partitions": [
            {
                "partition": p.partition,
                "position": p.position,
                "stop": p.stop,
                "state": p.state,
                "copied": p.copied,
                "filtered": p.filtered,
                "skipped": p.skipped,
                "lost": p.lost,
                "bytes": p.bytes,
            }
            for p in progress.partitions
        ],
    }


def _completeness(row: CompletenessRow) -> dict[str, int]:
    return {
        "partition": row.partition,
        "from": row.start,
        "to": row.stop,
        "offsets": row.offsets,
        "copied": row.copied,
        "filtered": row.filtered,
        "skipped": row.skipped,
        "lost": row.lost,
        "unexplained": row.unexplained,
    }


def _verification(verification: Verification) -> dict[str, Any]:
    return {
        "result": verification.result,
        "scope": verification.scope,
        "source_records": verification.source_records,
        "target_records": verification.target_records,
        "extra_records": verification.extra_records,
        "records_by_receipts": verification.records_by_receipts,
        "unkeyed_source_records": verification.unkeyed_source_records,
        "unkeyed_target_records": verification.unkeyed_target_records,
        "digest": verification.digest,
        "differences": [
            {
                "kind": d.kind,
                "source_partition": d.source_partition,
                "source_offset": d.source_offset,
                "target_partition": d.target_partition,
                "target_offset": d.target_offset,
                "count": d.count,
                "message": d.message,
            }
            for d in verification.differences
        ],
        "why": verification.why,
    }


def _internal(recovery: Recovery) -> dict[str, Any]:
    plan = recovery.plan
    internal: dict[str, Any] = {
        "format": FORMAT,
        "spec": spec_to_data(recovery.spec),
        "attempt": {name: getattr(recovery.attempt, name) for name in _ATTEMPT_FIELDS},
        "fields": {name: getattr(recovery, name) for name in _INTERNAL_FIELDS},
    }
    if plan is not None:
        internal["plan"] = {
            **{name: getattr(plan, name) for name in _INTERNAL_PLAN_FIELDS},
            "source_partitions": plan.source.partitions,
            "high_watermarks": [p.high_watermark for p in plan.partitions],
            "log_starts": [p.log_start for p in plan.partitions],
            "bytes_at_most": [p.bytes_at_most for p in plan.partitions],
            "first_ms": [p.first_ms for p in plan.partitions],
            "last_ms": [p.last_ms for p in plan.partitions],
        }
    return internal
