"""Steps about configs of topics: set them, and put back what nobody else changed since."""

from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.reporting import failed, is_first, not_done, report, untried
from recoveryd.adapters.kafka.topic_admin import change_configs, describe, read_own_configs
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import SetConfigs
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import ConfigUndo, UndoState

_Values = Mapping[str, Mapping[str, str]]


class ConfigSteps:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def set(self, effect: TakeStep, action: SetConfigs) -> StepReported:
        return await self._reach.run(action.cluster, self._put_back if action.is_back else self._set, effect, action)

    def _set(self, effect: TakeStep, action: SetConfigs) -> StepReported:
        """What is put back was noted with the plan, before anything was changed, so that our own value is never taken
        for somebody's; what has no such row belongs to a topic that the workflow made.
        """
        admin = self._reach.admin(action.cluster)
        try:
            gone = _gone(admin, action)
            now = read_own_configs(admin, action.configs.keys() - set(gone), TIMEOUT_S)
        except ClusterProblem as problem:
            return untried(effect, problem)
        rows = _rows_of(effect, action)
        # Before anything was tried, our value is somebody else's: it stays when ours are put back.
        others = [r for r in rows if is_first(effect) and r.name in now and now[r.name].get(r.config) == r.was_set]
        kept = tuple(replace(row, state=UndoState.KEPT) for row in others)
        if gone:
            why = f"{gone[0]} does not exist"
            return report(effect, Outcome.FAILED, why, code=Code.TOPIC_CHANGED.value, undo=kept)
        for row in rows:
            value = now[row.name].get(row.config)
            if value not in {row.to, row.was_set}:
                why = f"{row.config} of {row.name} is {_said(value)} and was {_said(row.to)}: somebody else set it"
                return report(effect, Outcome.FAILED, why, code=Code.TOPIC_CHANGED.value, undo=kept)
        if effect.is_look and (left := _others_now(action, now)):
            return not_done(effect, f"configs of {', '.join(left)}", kept)
        try:
            if not effect.is_look:
                change_configs(admin, action.configs, TIMEOUT_S)
        except ClusterProblem as problem:
            return replace(failed(effect, problem), undo=kept)
        told = ", ".join(
            f"{config} of {topic} is {_said(value)}, was {_said(now[topic].get(config))}"
            for topic, configs in action.configs.items()
            for config, value in configs.items()
        )
        return report(effect, Outcome.DONE, told, evidence={"topics": list(action.configs)}, undo=kept)

    def _put_back(self, effect: TakeStep, action: SetConfigs) -> StepReported:
        admin = self._reach.admin(action.cluster)
        gone = frozenset(_gone(admin, action))
        rows = _rows_of(effect, action)
        now = read_own_configs(admin, {row.name for row in rows} - gone, TIMEOUT_S)
        ours = [row for row in rows if row.name not in gone and now[row.name].get(row.config) == row.was_set]
        changes: dict[str, dict[str, str | None]] = {}
        for row in ours:
            changes.setdefault(row.name, {})[row.config] = row.to
        if changes and effect.is_look:
            return not_done(effect, f"configs of {', '.join(changes)}")
        if changes:
            change_configs(admin, changes, TIMEOUT_S)
        done = tuple(replace(row, state=_state_then(row, ours, now)) for row in rows)
        kept = sum(row.state is UndoState.KEPT for row in done)
        told = f"{len(rows) - kept} configs are as they were"
        told += f"; {kept} were changed by somebody else since, and stay" if kept else ""
        return report(effect, Outcome.DONE, told, evidence={"configs": len(rows), "kept": kept}, undo=done)


def _gone(admin: AdminClient, action: SetConfigs) -> list[str]:
    return [name for name, shape in describe(admin, action.configs, TIMEOUT_S).items() if shape is None]


def _others_now(action: SetConfigs, now: _Values) -> list[str]:
    """Topics of which a config is not as the action wants it."""
    return [t for t, configs in action.configs.items() if any(now[t].get(c) != value for c, value in configs.items())]


def _rows_of(effect: TakeStep, action: SetConfigs) -> list[ConfigUndo]:
    """The rows of the action's configs that are not put back yet. Configs that are to stay and temporary ones have rows
    of their own.
    """
    rows = (row for row in effect.rows if isinstance(row, ConfigUndo) and row.state is UndoState.OPEN)
    rows = (row for row in rows if row.is_temporary is action.is_temporary)
    return [row for row in rows if row.config in action.configs.get(row.name, {})]


def _state_then(row: ConfigUndo, ours: list[ConfigUndo], now: _Values) -> UndoState:
    """DONE also for a row that an earlier try has put back; KEPT for one that somebody else changed."""
    is_back = row in ours or now.get(row.name, {}).get(row.config) == row.to
    return UndoState.DONE if is_back else UndoState.KEPT


def _said(value: str | None) -> str:
    return "not set" if value is None else value
