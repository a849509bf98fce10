"""The graph of a unit: with a topology down to its stores, without one as a box between its topics."""

from dataclasses import replace

import pytest

from recoveryd.units.facts import Group, GroupPart, GroupType, UnitFacts
from recoveryd.units.graph import NodeRole, make_graph, to_mermaid
from recoveryd.units.internal_topics import InternalTopics
from tests.units.test_lint import WELL, WORDS, topic


@pytest.mark.scenario("S-WIKI-C2")
def test_with_a_topology_records_flow_from_input_to_output_through_internal_topics_and_stores() -> None:
    graph = make_graph(WORDS, WELL)
    roles = {node.name: node.role for node in graph.nodes}
    assert roles["words"] is NodeRole.INPUT
    assert roles["counts-out"] is NodeRole.OUTPUT
    assert roles["app-counts-repartition"] is NodeRole.INTERNAL
    assert roles["counts"] is NodeRole.STORE
    edges = set(graph.edges)
    assert ("topic:words", "node:KSTREAM-SOURCE-0000000000") in edges
    assert ("node:counts-repartition-sink", "topic:app-counts-repartition") in edges
    assert ("topic:app-counts-repartition", "node:counts-repartition-source") in edges
    assert ("store:counts", "topic:app-counts-changelog") in edges
    assert ("node:KSTREAM-SINK-0000000008", "topic:counts-out") in edges
    assert reachable(graph.edges, "topic:words") >= {"topic:counts-out", "topic:app-counts-changelog"}


def test_every_edge_has_both_its_ends() -> None:
    facts = replace(WELL, topics={name: t for name, t in WELL.topics.items() if "changelog" not in name})
    graph = make_graph(WORDS, replace(facts, internal=InternalTopics()))
    ids = {node.id for node in graph.nodes}
    assert all(start in ids and end in ids for start, end in graph.edges)
    assert len(graph.edges) == len(set(graph.edges))


def test_without_a_topology_the_unit_is_one_box() -> None:
    graph = make_graph(replace(WORDS, topology=None, intermediate=("mid",)), WELL)
    me = "unit:words"
    assert {start for start, end in graph.edges if end == me} == {
        "topic:words",
        "topic:mid",
        "topic:app-counts-repartition",
        "topic:app-counts-changelog",
    }
    assert ("unit:words", "topic:counts-out") in graph.edges


@pytest.mark.scenario("S-WIKI-C2")
def test_without_a_topology_a_streams_group_has_the_parts_that_the_broker_knows() -> None:
    first = GroupPart("0", frozenset({"words"}), repartitions_written=frozenset({"app-counts-repartition"}))
    second = GroupPart(
        "1",
        repartitions_read=frozenset({"app-counts-repartition"}),
        changelogs=frozenset({"app-counts-changelog"}),
    )
    group = Group("app", GroupType.STREAMS, "empty", is_streams=True, parts=(first, second))
    graph = make_graph(replace(WORDS, topology=None), replace(WELL, group=group))
    assert {("topic:words", "part:0"), ("part:0", "topic:app-counts-repartition")} <= set(graph.edges)
    assert reachable(graph.edges, "topic:words") >= {"store:counts", "topic:app-counts-changelog", "topic:counts-out"}
    assert {node.role for node in graph.nodes if node.part == 1} == {NodeRole.SUB_TOPOLOGY, NodeRole.STORE}
    assert to_mermaid(graph).count("subgraph") == 2


@pytest.mark.scenario("S-WIKI-C2")
def test_readers_of_outputs_partitions_and_the_meaning_of_time_are_shown() -> None:
    facts = replace(
        WELL,
        topics={**WELL.topics, "words": topic("words", 5, message_timestamp_type="LogAppendTime")},
        readers={"counts-out": ("billing",)},
        writers={"counts-out": ("sink-connector",)},
    )
    graph = make_graph(WORDS, facts)
    words = next(node for node in graph.nodes if node.name == "words")
    assert (words.partitions, words.time) == (5, "append")
    assert ("topic:counts-out", "reader:billing") in graph.edges
    assert ("writer:sink-connector", "topic:counts-out") in graph.edges


def test_a_topic_that_is_not_there_is_still_drawn() -> None:
    graph = make_graph(WORDS, UnitFacts(0))
    assert {(n.name, n.partitions) for n in graph.nodes if n.role is NodeRole.INPUT} == {("words", None)}


def test_the_picture_names_everything_once() -> None:
    picture = to_mermaid(make_graph(WORDS, WELL))
    assert picture.startswith("flowchart LR\n")
    assert picture.count("subgraph") == 2
    assert picture.count('"words"') == 1
    assert '[("counts")]' in picture


def reachable(edges: tuple[tuple[str, str], ...], start: str) -> set[str]:
    found, left = {start}, [start]
    while left:
        here = left.pop()
        for near in (end for begin, end in edges if begin == here and end not in found):
            found.add(near)
            left.append(near)
    return found
