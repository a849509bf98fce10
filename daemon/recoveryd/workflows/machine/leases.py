"""Configs of topics that a workflow changes for as long as it runs: what they are then, and how they are put back.

The rows are part of the plan, so that what was there is journaled before anything is changed. Only one workflow at a
time changes the same one: what a second found there would be the value of the first, and the first to end would put it
back under the other.
"""

from collections.abc import Iterable, Iterator, Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.workflows.model.actions import Action, CreateTopics, RecreateTopics, SetConfigs, SetQuotas, TopicForm
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.workflow import ConfigUndo, QuotaUndo, RowKey, Workflow, WorkflowStep

_HOLDS_NOTHING = frozenset({State.PLANNING, State.AWAITING_APPROVAL})

_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def lease_rows(cluster: str, form: TopicForm, wanted: Mapping[str, str | None]) -> Iterator[ConfigUndo]:
    """A row for each config that is another one now."""
    for config, value in wanted.items():
        if form.configs.get(config) != value:
            yield ConfigUndo(form.name, config, form.configs.get(config), value, is_temporary=True, cluster=cluster)


def nothing_goes(form: TopicForm) -> dict[str, str | None]:
    """Configs with which retention takes nothing; of a topic that is only compacted it takes nothing anyway."""
    return dict(_FOR_EVER) if "delete" in form.configs.get("cleanup.policy", "delete") else {}


def lease_step(name: str, cluster: str, rows: Iterable[ConfigUndo]) -> WorkflowStep:
    configs: dict[str, dict[str, str | None]] = {}
    for row in rows:
        configs.setdefault(row.name, {})[row.config] = row.was_set
    return WorkflowStep(name, SetConfigs(cluster, configs, is_temporary=True))


def lease_keys(cluster: str, form: TopicForm, wanted: Iterable[str]) -> frozenset[RowKey]:
    return frozenset(ConfigUndo(form.name, config, None, None, cluster=cluster).key for config in wanted)


def refuse_leases(workflows: Workflows, own_id: str, leases: frozenset[RowKey]) -> Refused | None:
    """The refusal that names another workflow which holds one of these."""
    for other in workflows.live.values() if leases else ():
        held = (
            None
            if other.id == own_id or other.state in _HOLDS_NOTHING or other.spec.dry_run
            else _shared(other, leases)
        )
        if held is not None:
            what = f"{held.config} of {held.name}" if isinstance(held, ConfigUndo) else f"the quota of {held.name}"
            message = f"workflow {other.id} has changed {what} until it ends, and is {other.state.value}"
            return Refused(Code.IN_USE, message, "Send it again when that one has ended.")
    return None


def were_put_back(workflows: Workflows, leases: frozenset[RowKey], since_ms: int, now_ms: int) -> bool:
    """Whether another workflow put one of these back after it was looked at, so that it is to be looked at again. What
    ended later than now did so before the clock was set back.
    """
    return any(
        row.key in leases
        for other in (workflows.ended.values() if leases else ())
        if since_ms < other.updated_ms <= now_ms
        for row in other.undo
        if isinstance(row, ConfigUndo | QuotaUndo)
    )


def was_begun(workflow: Workflow, row: ConfigUndo | QuotaUndo) -> bool:
    """Whether this was ever set by it: before, what is there is somebody else's, whatever it is. Topics may be made
    with it.
    """
    actions = (step.action for step in workflow.steps if step.began_ms is not None)
    return any(_sets(action, row) for action in actions if not getattr(action, "is_back", False))


def _sets(action: Action, row: ConfigUndo | QuotaUndo) -> bool:
    match action, row:
        case SetConfigs(configs=configs), ConfigUndo(name=name, config=config):
            return config in configs.get(name, {})
        case CreateTopics(topics=forms) | RecreateTopics(topics=forms), ConfigUndo(name=name, config=config):
            return any(form.name == name and config in form.configs for form in forms)
        case SetQuotas(quotas=quotas), QuotaUndo(name=name):
            return name in quotas
        case _:
            return False


def _shared(other: Workflow, leases: frozenset[RowKey]) -> ConfigUndo | QuotaUndo | None:
    return next((row for row in other.temporary if row.key in leases), None)
