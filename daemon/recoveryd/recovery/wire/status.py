"""The status record of a recovery: which fields people see, and where. The HTTP API and the command line show the same
document.

`RecoveryForm.read(write(r)) == r` for every recovery. Most fields are where the dataclass has them; `write` moves the
others and `read` moves them back. Fields without a public place are stored under `internal`, so that a new field needs
no change here.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from recoveryd.recovery.kinds import Kind
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.spec import Limits
from recoveryd.recovery.wire.format1 import upgraded
from recoveryd.wire.nouns import Document, NounForm, take
from recoveryd.wire.plain_json import finite
from recoveryd.wire.status_topic import FORMAT, format_of

# At the place where the dataclass has them, in this order.
PUBLIC: Final = (
    "recovery",
    "kind",
    "state",
    "why",
    "version",
    "created",
    "updated",
    "command",
    "attempt",
    "error_code",
    "plan",
    "progress",
    "limits",
    "stop",
    "completeness",
    "verification",
)
PUBLIC_PLAN: Final = (
    "hash",
    "source",
    "target",
    "records_at_most",
    "bytes_at_most",
    "eta_seconds",
    "budget",
    "traffic",
    "forecast",
    "receipts",
    "remote",
    "impact",
    "contracts",
    "findings",
)
PUBLIC_PARTITION: Final = ("partition", "start", "stop", "at_end")
BESIDE_LIMITS: Final = ("effective_bytes_per_s", "rule")


class RecoveryForm:
    """Reads and writes recoveries of these kinds, each with the form of its own specification."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._recovery, self._limits = NounForm(Recovery), NounForm(Limits)
        self._specs: dict[str, NounForm[Any]] = {kind.name: NounForm(kind.spec) for kind in kinds}
        self._forms = {kind.name: kind.form for kind in kinds}

    @cached_property
    def _default_limits(self) -> Document:
        return self._limits.write(Limits())

    def write(self, recovery: Recovery) -> Document:
        """The status record as JSON values."""
        data = self._recovery.write(recovery)
        data["spec"] = self._specs[recovery.kind].write(recovery.spec)
        attempt = data["attempt"]
        data["attempt"] = attempt.pop("number")
        set_now = {name: value for name, value in data["limits"].items() if value != self._default_limits[name]}
        data["limits"] = {"requested": set_now, **take(data, BESIDE_LIMITS)}
        _show_sums(data, recovery)
        plan_rest = None if data["plan"] is None else _split_plan(data["plan"])
        public = take(data, PUBLIC)
        return {**public, "internal": {"format": FORMAT, **data, "attempt": attempt, "plan": plan_rest}}

    def read(self, document: Document) -> Recovery:
        """The recovery in a document of `write` or of an earlier release. Raises KeyError, TypeError, ValueError or
        AttributeError for anything else.
        """
        if format_of(document) == 1:
            document = upgraded(document, self._forms[document["kind"]])
        public = {name: document[name] for name in PUBLIC}
        internal, limits, plan = document["internal"], document["limits"], document["plan"]
        spec = internal["spec"]
        return self._recovery.read(
            {
                **internal,
                **public,
                "spec": self._specs[document["kind"]].read(spec) if isinstance(spec, dict) else spec,
                "attempt": {**internal["attempt"], "number": document["attempt"]},
                "limits": limits["requested"],
                **{name: limits[name] for name in BESIDE_LIMITS},
                "plan": None if plan is None else _joined_plan(plan, internal["plan"]),
            }
        )


def _show_sums(data: Document, recovery: Recovery) -> None:
    """Add the sums, so that people need not add up."""
    progress, told = recovery.progress, data["progress"]
    rates = {
        "records_per_s": finite(progress.records_per_s) or 0.0,
        "bytes_per_s": finite(progress.bytes_per_s) or 0.0,
    }
    rows = {"partitions": told.pop("partitions")}  # moved to the end, because there may be more than fit on a screen
    data["progress"] = {"records": progress.records, "bytes": progress.bytes, **told, **rates, **rows}
    for row, known in zip(data["completeness"], recovery.completeness, strict=True):
        row |= {"offsets": known.offsets, "unexplained": known.unexplained}


def _split_plan(plan: Document) -> Document:
    """Takes the fields that people do not see out of `plan` and returns them; those of partitions as columns, since
    there may be thousands.
    """
    rest = {name: plan.pop(name) for name in list(plan) if name not in PUBLIC_PLAN}
    rows, starts = rest["partitions"], dict(rest["target_starts"])
    inner = [name for name in (rows[0] if rows else ()) if name not in PUBLIC_PARTITION]
    rest["partitions"] = {name: [row.pop(name) for row in rows] for name in inner}
    rest["source_partitions"] = plan["source"]["partitions"]
    plan["source"]["partitions"] = rows
    plan["target"]["ranges"] = [
        {"partition": p, "start": starts.get(p, 0), "stop": stop} for p, stop in rest["target_stops"]
    ]
    return rest


def _joined_plan(plan: Document, rest: Document) -> Document:
    source, columns = plan["source"], rest["partitions"]
    rows = source["partitions"]
    facts = zip(*columns.values(), strict=True) if columns else ((),) * len(rows)
    return {
        **rest,
        **plan,
        "source": {**source, "partitions": rest["source_partitions"]},
        "partitions": [
            {**row, **dict(zip(columns, found, strict=True))} for row, found in zip(rows, facts, strict=True)
        ],
    }
