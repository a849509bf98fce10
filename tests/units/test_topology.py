"""Texts of `Topology#describe` as Kafka Streams 4.3.1 gives them."""

from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.units.model import Unit, UnitKind
from recoveryd.units.topology import MAX_CHARS, NodeKind, Topology, TopologyProblem, parse_topology

TEXTS = Path(__file__).parent / "topologies"


def topology(name: str) -> Topology:
    return parse_topology((TEXTS / f"{name}.txt").read_text())


@pytest.mark.parametrize("path", sorted(TEXTS.iterdir()), ids=lambda path: path.stem)
def test_each_text_is_read_whole(path: Path) -> None:
    text = path.read_text()
    found = parse_topology(text)
    nodes = [node for part in found.parts for node in part.nodes]
    assert len(found.parts) == text.count("Sub-topology:")
    assert len(nodes) == text.count("Source:") + text.count("Processor:") + text.count("Sink:")
    assert sum(len(node.successors) for node in nodes) == sum(
        len(line.split("-->")[1].split(",")) for line in text.splitlines() if "-->" in line and "none" not in line
    )


def test_topics_stores_and_parts_of_a_word_count() -> None:
    found = topology("word-count")
    assert found.read == {"words", "counts-repartition"}
    assert found.written == {"counts-repartition", "counts-out"}
    assert found.through == {"counts-repartition"}
    assert found.stores == {"counts"}
    assert [part.number for part in found.parts] == [0, 1]


def test_a_store_of_a_global_table_has_no_changelog() -> None:
    found = topology("global-table")
    assert found.parts[0].is_global
    assert found.parts[0].stores == {"g-STATE-STORE-0000000000"}
    assert found.stores == {"KSTREAM-REDUCE-STATE-STORE-0000000005"}


def test_a_pattern_and_a_sink_that_chooses_are_told_apart_from_names() -> None:
    found = topology("pattern-and-dynamic-sink")
    source, _, sink = found.parts[0].nodes
    assert (source.kind, source.topics, source.pattern) == (NodeKind.SOURCE, (), "in-.*")
    assert (sink.kind, sink.topics) == (NodeKind.SINK, ())
    named = [node for part in topology("word-count").parts for node in part.nodes if node.kind is NodeKind.SINK]
    assert named
    assert all(node.topics for node in named)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no line `Sub-topology: 0`"),
        ("Topologies:\n  orders -> totals", "no line `Sub-topology: 0`"),
        ("Sub-topology: 0\n Source: a (topics: [x])\n  --> b", "a leads to b, which is not there"),
        ("Sub-topology: 0\n Source: a (topics: [x])\n  --> none\n and so on", "line 4 is no source"),
        ("Sub-topology: 0\n Source: a topics: [x]", "line 2 is no source"),
        ("Sub-topology: " + "9" * 5_000, "no line `Sub-topology: 0`"),
        ("x" * (MAX_CHARS + 1), "more than"),
    ],
)
def test_what_is_no_such_text_is_refused_with_the_line(text: str, says: str) -> None:
    with pytest.raises(TopologyProblem, match=says):
        parse_topology(text)


def test_what_only_global_parts_read_has_no_position() -> None:
    found = topology("global-table")
    assert found.read_globally == {"g"}
    joined = replace(found, parts=(*found.parts, replace(found.parts[0], number=3, is_global=False)))
    assert joined.read_globally == frozenset(), "a task reads it as well"
    unit = Unit("u", UnitKind.STREAMS, "main", "app", ("words", "g"), ("g", "o"), topology=found)
    assert (unit.positioned_inputs, unit.positioned_between, unit.positioned) == (("words",), ("o",), ("words", "o"))
    assert replace(unit, topology=None).positioned_inputs == ("words", "g"), "nobody knows"
