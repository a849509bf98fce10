"""A topic that is copied record by record: the form of its copy, and the data of the replay that fills it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.recovery.told_size import ToldSize
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.facts import TopicFound
from recoveryd.workflows.model.workflow import PlannedCopies

_TAKEN_OVER: Final = frozenset({"max.message.bytes", "compression.type", "min.insync.replicas"})


def copy_form(name: str, form: TopicForm) -> TopicForm:
    """The copy keeps each record of the topic, which compaction would not."""
    kept = {config: value for config, value in form.configs.items() if config in _TAKEN_OVER}
    return replace(form, name=name, configs={**kept, **AS_WRITTEN})


def planned_copies(there: Iterable[TopicFound]) -> PlannedCopies:
    """What is copied of these topics at most."""
    topics = list(there)
    sizes = [topic.bytes_at_most for topic in topics]
    known = [size for size in sizes if size is not None]
    whole = sum(known) if len(known) == len(sizes) else None
    return PlannedCopies(sum(topic.records_most for topic in topics), whole)


def told_sizes(there: Iterable[TopicFound]) -> dict[str, ToldSize]:
    """The same of each of them."""
    return {topic.form.name: ToldSize(topic.records_most, topic.bytes_at_most) for topic in there}


def copy_data(
    cluster: str, source: str, target: str, starts: Mapping[int, int], stops: Mapping[int, int]
) -> dict[str, Any]:
    """The data of a replay of [starts, stops) of each partition into an empty topic with as many."""
    there = [p for p in stops if stops[p] > starts[p]]
    return {
        "source": {
            "cluster": cluster,
            "topic": source,
            "partitions": there,
            "from": {"offsets": {str(p): starts[p] for p in there}},
            "to": {"offsets": {str(p): stops[p] for p in there}},
        },
        "target": {"cluster": cluster, "topic": target},
    }
