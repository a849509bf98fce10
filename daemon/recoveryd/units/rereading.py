"""Units that were read again while the daemon runs: all of what was read takes effect, or nothing of it."""

from recoveryd.kernel.metrics import Metric, MetricKind
from recoveryd.units.draft import UnitsDraft
from recoveryd.units.events import UnitsRead

NOT_REREAD = Metric(
    "recoveryd_units_reread_refused",
    MetricKind.GAUGE,
    "1 while those who asked for the units to be read again were refused, and the ones of before stand, else 0.",
)


def on_read(draft: UnitsDraft, event: UnitsRead) -> None:
    """Tell what changed, or why nothing did. A daemon that begins to lead is told again, and says nothing new."""
    if event.units is not None:
        _take(draft, event)
    if event.problem != draft.problem and event.problem is not None:
        told = {"why": f"the units stay as they are: {event.problem}", "code": event.code, "message": event.problem}
        draft.notice("units_refused", "units", {**told, "hint": event.hint})
        draft.reason = told["why"]
    draft.problem = event.problem


def _take(draft: UnitsDraft, event: UnitsRead) -> None:
    before, after = draft.units, event.units or {}
    draft.reread, draft.approvals = after, event.approvals
    draft.short = {name: short for name, short in draft.short.items() if before.get(name) == after.get(name)}
    added, removed = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    changed = sorted(name for name in after.keys() & before.keys() if after[name] != before[name])
    if not event.is_told_again:
        why = f"{len(after)} units were read: {len(added)} are new, {len(changed)} changed, {len(removed)} are gone"
        if event.approvals is not None:
            why += f", and {len(event.approvals)} rules say who approves"
        draft.notice("units_read", "units", {"why": why, "added": added, "changed": changed, "removed": removed})
        draft.reason = why
