"""`recoveryctl topics list` and `topics diff`: topics of the clusters as brokers have them, beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.adapters.kafka.topic_survey import SurveyedTopic
    from recoveryd.settings import Settings

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, argument, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.connect import Connection, known_cluster
from recoveryd.cli.send.connected import connected
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.spelling import did_you_mean

_MAIN = "main"
_NONE = "-"
Row = dict[str, Any]
Side = Annotated[
    str, argument("[CLUSTER:]TOPIC", "A topic, of the cluster main unless named; CLUSTER: is all of them.")
]


@dataclass(frozen=True, slots=True)
class _ComparedTopic:
    """One of the two that are compared. `topic` None = the whole cluster."""

    cluster: str
    topic: str | None

    def __str__(self) -> str:
        return f"{self.cluster}:{self.topic or ''}"


@connected
def list_topics(
    connection: Connection,
    cluster: Annotated[
        str, option("--cluster", "The cluster of the config whose topics are listed.", "NAME", shows_default=True)
    ] = _MAIN,
    every: Annotated[bool, option("--all", "Internal topics and recoveryd's own too.")] = False,
    output: Output = Format.TABLE,
) -> int:
    """Topics of a cluster: partitions, replicas, an upper bound of records, and the configs that were set."""
    settings = connection.settings
    names = _names(settings, cluster, every)
    rows = [_row(topic) for topic in _survey(settings, cluster, names).values() if topic is not None]
    show(rows, output, lambda: [_listed(rows)], [row["topic"] for row in rows])
    if not rows and output.is_table:
        note("There is no topic that this user may see." if every else "There is no topic; --all shows internal ones.")
    return ExitCode.DONE


@connected
def diff_topics(
    connection: Connection,
    left: Side,
    right: Side,
    every: Annotated[bool, option("--all", "Of whole clusters: internal topics and recoveryd's own too.")] = False,
    output: Output = Format.TABLE,
) -> int:
    """Compare two topics, or all topics of two clusters by name: partitions, replicas, configs, log starts and ends.
    Exits with 9 when something differs. Topics that get records meanwhile differ in their ends.
    """
    settings = connection.settings
    sides = _place(settings, left), _place(settings, right)
    if (sides[0].topic is None) != (sides[1].topic is None):
        raise usage("One is a topic and the other a whole cluster.", "Name two topics, or two clusters as NAME:.")
    if sides[0] == sides[1]:
        raise usage("Both are the same.", "Name two topics, or two clusters as NAME:.")
    rows = list(_compared(settings, *sides, every))
    show(rows, output, lambda: [_differences(sides, rows)], [f"{row['topic']} {row['field']}" for row in rows])
    if not rows and output.is_table:
        note(f"{sides[0]} and {sides[1]} are the same.")
    return ExitCode.DIFFERENCES if rows else ExitCode.DONE


def _compared(settings: "Settings", left: _ComparedTopic, right: _ComparedTopic, every: bool) -> Iterator[Row]:
    if left.topic is not None and right.topic is not None:
        sides = [_one(settings, place) for place in (left, right)]
        name = left.topic if left.topic == right.topic else f"{left.topic} | {right.topic}"
        yield from _rows(name, *sides)
        return
    names = [_names(settings, place.cluster, every) for place in (left, right)]
    both = sorted(set(names[0]) & set(names[1]))
    found = [_survey(settings, place.cluster, both) for place in (left, right)]
    for name in sorted({*names[0], *names[1]}):
        if name not in both:
            told = ["exists" if name in side else None for side in names]
            yield {"topic": name, "field": "topic", "left": told[0], "right": told[1]}
            continue
        ours, theirs = found[0][name], found[1][name]
        if ours is not None and theirs is not None:  # one may have been deleted meanwhile
            yield from _rows(name, ours, theirs)


def _rows(name: str, left: "SurveyedTopic", right: "SurveyedTopic") -> Iterator[Row]:
    sides = _facts(left), _facts(right)
    for field in dict.fromkeys((*sides[0], *sides[1])):
        if sides[0].get(field) != sides[1].get(field):
            yield {"topic": name, "field": field, "left": sides[0].get(field), "right": sides[1].get(field)}


def _facts(topic: "SurveyedTopic") -> dict[str, Any]:
    facts: dict[str, Any] = {"partitions": topic.partitions, "replication_factor": topic.replication_factor}
    facts |= {f"config {name}": value for name, value in sorted(topic.configs.items())}
    for partition, (start, stop) in sorted(topic.ranges.items()):
        facts |= {f"partition {partition} start": start, f"partition {partition} end": stop}
    return facts


def _place(settings: "Settings", text: str) -> _ComparedTopic:
    cluster, colon, topic = text.rpartition(":")
    return _ComparedTopic(known_cluster(settings, cluster if colon else _MAIN), topic or None)


def _names(settings: "Settings", cluster: str, every: bool) -> list[str]:
    from recoveryd.adapters.kafka.topic_survey import topic_names  # noqa: PLC0415

    own = set(settings.topic_names.all)
    found = topic_names(cluster, settings.librdkafka(known_cluster(settings, cluster)))
    return [name for name in found if every or not (name.startswith("__") or name in own)]


def _survey(settings: "Settings", cluster: str, names: Sequence[str]) -> Mapping[str, "SurveyedTopic | None"]:
    from recoveryd.adapters.kafka.topic_survey import survey  # noqa: PLC0415

    return survey(cluster, settings.librdkafka(cluster), names)


def _one(settings: "Settings", place: _ComparedTopic) -> "SurveyedTopic":
    assert place.topic is not None
    found = _survey(settings, place.cluster, [place.topic])[place.topic]
    if found is None:
        all_of_them = f"`recoveryctl topics list --cluster {place.cluster}` has them."
        hint = did_you_mean(place.topic, _names(settings, place.cluster, True), all_of_them)
        message = f"There is no topic {place.topic} on {place.cluster}."
        raise Failure(Code.SOURCE_TOPIC_MISSING, message, hint, otherwise=ExitCode.NOT_FOUND)
    return found


def _row(topic: "SurveyedTopic") -> Row:
    return {
        "topic": topic.topic,
        "topic_id": topic.topic_id,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "offsets": topic.offsets,
        "configs": dict(sorted(topic.configs.items())),
        "ranges": [{"partition": p, "start": start, "stop": stop} for p, (start, stop) in sorted(topic.ranges.items())],
    }


def _listed(rows: Sequence[Row]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("TOPIC", ">PARTITIONS", ">REPLICAS", ">OFFSETS", "CONFIGS")
    for row in rows:
        configs = ", ".join(f"{name}={value}" for name, value in row["configs"].items())
        numbers = (row["partitions"], row["replication_factor"])
        table.add_row(row["topic"], *map(str, numbers), f"{row['offsets']:,}", configs)
    return table


def _differences(sides: tuple[_ComparedTopic, _ComparedTopic], rows: Sequence[Row]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("TOPIC", "FIELD", *map(str, sides))
    for row in rows:
        table.add_row(
            row["topic"], row["field"], *(_NONE if row[s] is None else str(row[s]) for s in ("left", "right"))
        )
    return table
