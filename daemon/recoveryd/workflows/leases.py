"""Configs of topics that a workflow changes for as long as it runs: what they are then, and how they are put back.

The rows are part of the plan, so that what was there is journaled before anything is changed.
"""

from collections.abc import Iterable, Iterator, Mapping

from recoveryd.workflows.actions import SetConfigs, TopicForm
from recoveryd.workflows.model import ConfigUndo, WorkflowStep

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
