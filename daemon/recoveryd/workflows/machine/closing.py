"""What a workflow changed for its own time only and could not put back: how long it is tried, and how it ends without.

Whoever reads the reason finds what was left changed, and the commands of Kafka that put it back: the daemon may lack
the right to.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.draft import ALL_READ
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.units.kafka_tools import alter_configs
from recoveryd.workflows.model.actions import SetConfigs, SetQuotas
from recoveryd.workflows.model.workflow import ConfigUndo, Ending, QuotaUndo, UndoState, Workflow, WorkflowStep

_NAMED_MOST: Final = 20
_WITHOUT: Final = frozenset({State.FAILED, State.STOPPED})  # ends that promise nothing


def with_deadline(ending: Ending, now_ms: int, patience_ms: int) -> Ending:
    """From the first thing that is put back on."""
    return replace(ending, deadline_ms=now_ms + patience_ms) if ending.deadline_ms is None else ending


def given_up(workflow: Workflow, who: str, now_ms: int) -> Workflow:
    """Somebody does not want it to be tried any longer: the next try is the last one."""
    assert workflow.ending is not None
    return with_last_try(replace(workflow, ending=replace(workflow.ending, deadline_ms=now_ms, given_up_by=who)))


def with_last_try(workflow: Workflow) -> Workflow:
    assert workflow.ending is not None
    return replace(workflow, ending=replace(workflow.ending, is_last_try=True))


def without_last_try(workflow: Workflow) -> Workflow:
    """Unless a person asked for it: while it is not known what was sent, none may be the last."""
    ending = workflow.ending
    if ending is None or not ending.is_last_try or ending.given_up_by:
        return workflow
    return replace(workflow, ending=replace(ending, is_last_try=False))


def is_over(workflow: Workflow, now_ms: int) -> bool:
    """Whether it was tried for long enough."""
    ending = workflow.ending
    return ending is not None and ending.deadline_ms is not None and now_ms >= ending.deadline_ms


def told_try(workflow: Workflow, now_ms: int) -> str:
    """How long it is tried."""
    ending = workflow.ending
    if is_over(workflow, now_ms):
        return f"it is tried once more when {ALL_READ}"
    until = "" if ending is None or ending.deadline_ms is None else f" until {format_time_ms(ending.deadline_ms)}"
    return f"it is tried again{until}; `recoveryctl stop {workflow.id} --reason TEXT` leaves it changed"


def without(workflow: Workflow, step: WorkflowStep, why: str) -> Workflow:
    """The workflow as it ends although what `step` should have put back is still changed. If a person gave that up, it
    ends as was meant; else one that would have completed, or been rolled back, fails.
    """
    ending, rows = workflow.ending, _rows_of(workflow, step)
    assert ending is not None
    left = tuple(replace(row, state=UndoState.LEFT) for row in rows)
    told = f"given up by {ending.given_up_by}" if ending.given_up_by else "tried for long enough"
    told = f"{ending.why}; {step.name} was {told} ({why}), so it is left changed: {_told(left)}"
    is_kept = bool(ending.given_up_by) or ending.state in _WITHOUT
    state, code = (ending.state, ending.code) if is_kept else (State.FAILED, Code.LEFT_CHANGED.value)
    if code is None and not ending.given_up_by:
        code = Code.LEFT_CHANGED.value
    ended = replace(ending, state=state, why=told, code=code, is_last_try=False)
    return replace(workflow.with_undo(left), ending=ended)


def _rows_of(workflow: Workflow, step: WorkflowStep) -> tuple[ConfigUndo | QuotaUndo, ...]:
    match step.action:
        case SetConfigs(configs=configs):
            rows = (row for row in workflow.temporary if isinstance(row, ConfigUndo))
            return tuple(row for row in rows if row.config in configs.get(row.name, {}))
        case SetQuotas(quotas=quotas):
            return tuple(row for row in workflow.temporary if isinstance(row, QuotaUndo) and row.name in quotas)
        case _:
            return ()


def _told(rows: Iterable[ConfigUndo | QuotaUndo]) -> str:
    by_name: dict[str, list[ConfigUndo | QuotaUndo]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    some = list(by_name.values())[:_NAMED_MOST]
    parts = [", ".join(map(_as_it_is, of)) for of in some]
    more = len(by_name) - len(some)
    tail = f"; and {more} more, whose `undo` is `left` in the record" if more else ""
    return f"{'; '.join(parts)}{tail}. To put it back: {'; '.join(f'`{_command(of)}`' for of in some)}"


def _as_it_is(row: ConfigUndo | QuotaUndo) -> str:
    what = f"{row.config} of {row.name}" if isinstance(row, ConfigUndo) else f"the quota of {row.name}"
    return f"{what} is {_value(row.was_set)}, was {_value(row.to)}"


def _value(value: str | float | None) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return "not set" if value is None else value


def _command(rows: list[ConfigUndo | QuotaUndo]) -> str:
    """For one topic or client."""
    configs = {
        row.config if isinstance(row, ConfigUndo) else "consumer_byte_rate": None if row.to is None else _value(row.to)
        for row in rows
    }
    return alter_configs("topics" if isinstance(rows[0], ConfigUndo) else "clients", rows[0].name, configs)
