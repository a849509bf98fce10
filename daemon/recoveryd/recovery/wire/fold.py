"""Status records back to recoveries: what a daemon does with the whole status topic when it starts.

The exact inverse of `recoveryd.recovery.wire.status`. A record of another format, or one that is broken, is an error that names it: going on with half of the truth
would be worse than not starting. Fields that this release does not know are ignored, fields that an older release did not write get their defaults.
"""

from typing import Any, Final

from recoveryd.forecast.view import ForecastView
from recoveryd.forecast.wire import forecast_from_data
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import parse_time_ms
from recoveryd.recovery.model import (
    Attempt,
    CompletenessRow,
    EtaSeconds,
    Finding,
    PartitionProgress,
    Plan,
    PlannedPartition,
    PlannedTopic,
    Progress,
    Recovery,
    Severity,
)
from recoveryd.recovery.wire.reading import readers
from recoveryd.recovery.wire.spec import limits_from_data, spec_from_data
from recoveryd.recovery.wire.status import PUBLIC_FIELDS, PUBLIC_PLAN_FIELDS
from recoveryd.wire.status_topic import check_format
from recoveryd_jobs.contract import Difference, ReceiptsHome, Verification


def from_document(d: dict[str, Any]) -> Recovery:
    """What `to_document` wrote. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
    check_format(d)
    internal, command, limits = d["internal"], d["command"], d["limits"]
    fields = internal["fields"]
    rest = {name: convert(fields[name]) for name, convert in _INTERNAL_READERS.items() if name in fields}
    attempt = internal["attempt"]
    return Recovery(
        id=d["recovery"],
        kind=d["kind"],
        state=State(d["state"]),
        why=d["why"],
        version=d["version"],
        created_ms=parse_time_ms(d["created"]),
        updated_ms=parse_time_ms(d["updated"]),
        command=CommandRef(command["id"], command["source"], command["reason"]),
        spec=spec_from_data(d["kind"], internal["spec"]),
        plan=None if d["plan"] is None else _plan(d["plan"], internal["plan"]),
        attempt=Attempt(**{name: read(attempt[name]) for name, read in _ATTEMPT_READERS.items() if name in attempt}),
        progress=_progress(d["progress"]),
        limits=limits_from_data(limits["requested"]),
        rule=limits["rule"],
        effective_bytes_per_s=limits["effective_bytes_per_s"],
        stop=None if d["stop"] is None else _stop(d["stop"]),
        completeness=tuple(_completeness(row) for row in d["completeness"]),
        verification=None if d["verification"] is None else _verification(d["verification"]),
        error_code=d["error_code"],
        **rest,
    )


def _plan(plan: dict[str, Any], internal: dict[str, Any]) -> Plan:
    source, target, eta = plan["source"], plan["target"], plan["eta_seconds"]
    nothing = [None] * len(source["partitions"])
    columns = zip(
        source["partitions"],
        internal["high_watermarks"],
        internal["log_starts"],
        internal["bytes_at_most"],
        internal.get("first_ms") or nothing,
        internal.get("last_ms") or nothing,
        strict=True,
    )
    return Plan(
        hash=plan["hash"],
        source=PlannedTopic(source["cluster"], source["topic"], source["topic_id"], internal["source_partitions"]),
        target=PlannedTopic(target["cluster"], target["topic"], target["topic_id"], target["partitions"]),
        partitions=tuple(
            PlannedPartition(p["partition"], p["start"], p["stop"], p["at_end"], *facts) for p, *facts in columns
        ),
        records_at_most=plan["records_at_most"],
        bytes_at_most=plan["bytes_at_most"],
        eta_seconds=None if eta is None else EtaSeconds(eta["lo"], eta["mid"], eta["hi"]),
        findings=tuple(Finding(f["code"], Severity(f["severity"]), f["message"]) for f in plan["findings"]),
        **{name: read(internal[name]) for name, read in _PLAN_READERS.items() if name in internal},
        forecast=_forecast(plan.get("forecast")),
        receipts=_receipts_home(plan.get("receipts")),
    )


def _receipts_home(home: dict[str, Any] | None) -> ReceiptsHome | None:
    if home is None:
        return None
    return ReceiptsHome(home["topic"], home["topic_id"], home["partition"], home["partitions"], home["start"])


def _forecast(data: dict[str, Any] | None) -> ForecastView | None:
    return None if data is None else forecast_from_data(data)


def _progress(progress: dict[str, Any]) -> Progress:
    return Progress(
        partitions=tuple(
            PartitionProgress(
                p["partition"],
                p["position"],
                p["stop"],
                p["state"],
                p["copied"],
                p["filtered"],
                p["skipped"],
                p["lost"],
                p["bytes"],
            )
            for p in progress["partitions"]
        ),
        records_per_s=progress["records_per_s"],
        bytes_per_s=progress["bytes_per_s"],
        lag_records=progress["lag_records"],
        eta_seconds=progress["eta_seconds"],
        forecast=_forecast(progress.get("forecast")),
        **{name: progress.get(name, 0) for name in _VERIFIED},
    )


def _stop(stop: dict[str, Any]) -> Stop:
    return Stop(StopReason(stop["reason"]), stop["mode"], parse_time_ms(stop["at"]), stop["evidence"])


def _completeness(row: dict[str, int]) -> CompletenessRow:
    return CompletenessRow(
        row["partition"], row["from"], row["to"], row["copied"], row["filtered"], row["skipped"], row["lost"]
    )


def _verification(verification: dict[str, Any]) -> Verification:
    return Verification(
        result=verification["result"],
        source_records=verification["source_records"],
        target_records=verification["target_records"],
        digest=verification["digest"],
        differences=tuple(
            Difference(**d) if "count" in d else _difference_of_old(d) for d in verification["differences"]
        ),
        why=verification["why"],
        scope=verification.get("scope", ""),
        extra_records=verification.get("extra_records", 0),
        records_by_receipts=verification.get("records_by_receipts", 0),
        unkeyed_source_records=verification.get("unkeyed_source_records", 0),
        unkeyed_target_records=verification.get("unkeyed_target_records", 0),
    )


def _difference_of_old(d: dict[str, Any]) -> Difference:
    """Older records say `partition`, `start` and `stop`: of the source for `count`, else in most cases of the target; the message tells."""
    kind, count = {"count": "ledger", "digest": "altered"}.get(d["kind"], d["kind"]), d["stop"] - d["start"]
    if d["kind"] == "count":
        return Difference(kind, d["partition"], d["start"], None, None, count, d["message"])
    return Difference(kind, None, None, d["partition"], d["start"], count, d["message"])


_VERIFIED: Final = ("verified_records", "verified_bytes", "verified_offsets", "offsets_to_verify")


_ATTEMPT_READERS: Final = readers(Attempt)
_INTERNAL_READERS: Final = readers(Recovery, without=PUBLIC_FIELDS)
_PLAN_READERS: Final = readers(Plan, without=PUBLIC_PLAN_FIELDS)
