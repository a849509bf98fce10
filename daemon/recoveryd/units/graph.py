"""A unit as a graph: topics, parts of the topology, nodes, stores and the edges between them. JSON is made from it as
it is; Mermaid for people.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recoveryd.units.facts import GroupPart, UnitFacts
from recoveryd.units.internal_topics import changelog_of, store_of
from recoveryd.units.model import Unit
from recoveryd.units.topology import Node, NodeKind, SubTopology


class NodeRole(StrEnum):
    """What a node of the graph is."""

    INPUT = "input"
    INTERMEDIATE = "intermediate"
    OUTPUT = "output"
    INTERNAL = "internal"
    AMBIGUOUS = "ambiguous"
    UNIT = "unit"
    SUB_TOPOLOGY = "sub_topology"
    PROCESSOR = "processor"
    STORE = "store"
    READER = "reader"
    WRITER = "writer"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """`time` of a topic: create = the producer's clock, append = the broker's; None = not known, or no topic. `part` is
    its sub-topology.
    """

    id: str
    role: NodeRole
    name: str
    part: int | None = None
    partitions: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """`edges` go from id to id, in the direction in which records flow; a store and its processor have one each way."""

    unit: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[str, str], ...]


_TIMES: Final = {"CreateTime": "create", "LogAppendTime": "append"}
_SHAPES: Final = {NodeRole.STORE: ("[(", ")]"), NodeRole.PROCESSOR: ("(", ")"), NodeRole.UNIT: ("[[", "]]"), NodeRole.READER: ("([", "])"), NodeRole.WRITER: ("([", "])")}  # fmt: skip


def make_graph(unit: Unit, facts: UnitFacts) -> Graph:
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str], None] = {}
    for role, names in _topics(unit, facts):
        for name in names:
            nodes.setdefault(_topic_id(name), _topic_node(name, role, facts))
    if unit.topology is not None:
        for part in unit.topology.parts:
            _add_part(unit, part, nodes, edges)
    elif facts.group is not None and facts.group.parts:
        _add_told_parts(unit, facts.group.parts, nodes, edges)
    else:
        _add_unit(unit, facts, nodes, edges)
    for role, found in ((NodeRole.READER, facts.readers), (NodeRole.WRITER, facts.writers)):
        for topic, names in found.items():
            for name in names:
                other = f"{role.value}:{name}"
                nodes.setdefault(other, GraphNode(other, role, name))
                edges[(_topic_id(topic), other) if role is NodeRole.READER else (other, _topic_id(topic))] = None
    known = {edge: None for edge in edges if edge[0] in nodes and edge[1] in nodes}
    return Graph(unit.name, tuple(nodes.values()), tuple(known))


def to_mermaid(graph: Graph) -> str:
    """A flowchart; sub-topologies are boxes."""
    number = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    parts = sorted({node.part for node in graph.nodes if node.part is not None})
    lines += [f"  {_drawn(node, number)}" for node in graph.nodes if node.part is None]
    for part in parts:
        inside = [f"    {_drawn(node, number)}" for node in graph.nodes if node.part == part]
        lines += [f"  subgraph p{part}[sub-topology {part}]", *inside, "  end"]
    lines += [f"  {number[start]} --> {number[end]}" for start, end in graph.edges]
    return "\n".join(lines) + "\n"


def _topics(unit: Unit, facts: UnitFacts) -> Iterator[tuple[NodeRole, tuple[str, ...]]]:
    yield NodeRole.INPUT, unit.inputs
    yield NodeRole.INTERMEDIATE, unit.intermediate
    yield NodeRole.OUTPUT, tuple(unit.outputs)
    yield NodeRole.INTERNAL, facts.internal.certain
    yield NodeRole.AMBIGUOUS, tuple(name for name, _ in facts.internal.ambiguous)


def _topic_id(name: str) -> str:
    return f"topic:{name}"


def _topic_node(name: str, role: NodeRole, facts: UnitFacts) -> GraphNode:
    topic = facts.topics.get(name)
    if topic is None:
        return GraphNode(_topic_id(name), role, name)
    time = _TIMES.get(topic.configs.get("message.timestamp.type", ""))
    return GraphNode(_topic_id(name), role, name, None, topic.partitions, time)


def _add_unit(unit: Unit, facts: UnitFacts, nodes: dict[str, GraphNode], edges: dict[tuple[str, str], None]) -> None:
    """Without a topology it is one box; what is between its topics is not known."""
    me = f"unit:{unit.name}"
    nodes[me] = GraphNode(me, NodeRole.UNIT, unit.group)
    both = (*unit.intermediate, *facts.internal.certain)
    for name in (*unit.inputs, *both):
        edges[_topic_id(name), me] = None
    for name in (*unit.outputs, *both):
        edges[me, _topic_id(name)] = None


def _add_told_parts(
    unit: Unit, parts: tuple[GroupPart, ...], nodes: dict[str, GraphNode], edges: dict[tuple[str, str], None]
) -> None:
    """As far as the broker knows a topology. It knows no processors and not which part writes an output, so outputs
    hang on the unit.
    """
    me = f"unit:{unit.name}"
    nodes[me] = GraphNode(me, NodeRole.UNIT, unit.group)
    for part in parts:
        number = int(part.id) if part.id.isdecimal() else None
        box = f"part:{part.id}"
        nodes[box] = GraphNode(box, NodeRole.SUB_TOPOLOGY, f"sub-topology {part.id}", number)
        edges[box, me] = None
        for name in sorted(part.sources):
            edges[_told_topic(name, nodes, NodeRole.INPUT), box] = None
        for name in sorted(part.repartitions_read):
            edges[_told_topic(name, nodes), box] = None
        for name in sorted(part.repartitions_written):
            edges[box, _told_topic(name, nodes)] = None
        for name in sorted(part.changelogs):
            store = store_of(unit.group, name)
            held = f"store:{store}"
            nodes.setdefault(held, GraphNode(held, NodeRole.STORE, store, number))
            edges[box, held] = None
            edges[held, box] = None
            edges[held, _told_topic(name, nodes)] = None
    for name in (*unit.outputs, *unit.intermediate):
        edges[me, _topic_id(name)] = None


def _told_topic(name: str, nodes: dict[str, GraphNode], role: NodeRole = NodeRole.INTERNAL) -> str:
    """Its id; `role` is that of a topic which is nowhere else in the graph."""
    nodes.setdefault(_topic_id(name), GraphNode(_topic_id(name), role, name))
    return _topic_id(name)


def _add_part(unit: Unit, part: SubTopology, nodes: dict[str, GraphNode], edges: dict[tuple[str, str], None]) -> None:
    for node in part.nodes:
        me = f"node:{node.name}"
        nodes[me] = GraphNode(me, NodeRole.PROCESSOR, node.name, part.number)
        for successor in node.successors:
            edges[me, f"node:{successor}"] = None
        for topic in node.topics:
            full = _topic_id(_full_name(unit, topic))
            nodes.setdefault(full, GraphNode(full, NodeRole.INTERNAL, _full_name(unit, topic)))
            edges[(full, me) if node.kind is NodeKind.SOURCE else (me, full)] = None
        _add_stores(unit, part, node, nodes, edges)


def _add_stores(
    unit: Unit, part: SubTopology, node: Node, nodes: dict[str, GraphNode], edges: dict[tuple[str, str], None]
) -> None:
    for store in node.stores:
        held, changelog = f"store:{store}", _topic_id(changelog_of(unit.group, store))
        nodes.setdefault(held, GraphNode(held, NodeRole.STORE, store, part.number))
        edges[f"node:{node.name}", held] = None
        edges[held, f"node:{node.name}"] = None
        edges[held, changelog] = None  # left out again where there is no such topic


def _full_name(unit: Unit, topic: str) -> str:
    """Internal topics stand in a topology without the id."""
    assert unit.topology is not None
    is_internal = topic in unit.topology.through and topic not in unit.own_topics
    return f"{unit.group}-{topic}" if is_internal else topic


def _drawn(node: GraphNode, number: dict[str, str]) -> str:
    opening, closing = _SHAPES.get(node.role, ("[", "]"))
    label = node.name.replace('"', "'")
    return f'{number[node.id]}{opening}"{label}"{closing}'
