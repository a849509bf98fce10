"""What Kafka Streams says of itself: the text of `Topology#describe`, read into nodes and edges.

The form is that of Kafka 2.0 to 4.3. Names of internal topics stand in it without the application id. A topology with
optimisation is another text than one without, so the text has to be of the application as it runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

_SUB: Final = re.compile(r"Sub-topology:\s*(\d{1,9})\b(.*)", flags=re.ASCII)
_NODE: Final = re.compile(r"(Source|Processor|Sink):\s+(\S+)\s+\((topics|topic|stores|extractor class):\s*(.*)\)")
_ARROW: Final = re.compile(r"(-->|<--)\s+(.+)")
MAX_CHARS: Final = 1_000_000


class NodeKind(StrEnum):
    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"


class TopologyProblem(ValueError):  # noqa: N818  (named for what happened)
    """The text is not what `Topology#describe` gives; says the line."""


@dataclass(frozen=True, slots=True)
class Node:
    """`topics` of a source or sink, `pattern` of a source by regular expression; a sink with neither chooses its topic
    record by record.
    """

    name: str
    kind: NodeKind
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubTopology:
    """A part that shares tasks. One for global stores has none, and its stores have no changelog."""

    number: int
    is_global: bool
    nodes: tuple[Node, ...]

    @property
    def stores(self) -> frozenset[str]:
        return frozenset(store for node in self.nodes for store in node.stores)

    @property
    def read(self) -> frozenset[str]:
        return frozenset(t for node in self.nodes if node.kind is NodeKind.SOURCE for t in node.topics)

    @property
    def written(self) -> frozenset[str]:
        return frozenset(t for node in self.nodes if node.kind is NodeKind.SINK for t in node.topics)


@dataclass(frozen=True, slots=True)
class Topology:
    parts: tuple[SubTopology, ...]

    @property
    def read(self) -> frozenset[str]:
        return frozenset(topic for part in self.parts for topic in part.read)

    @property
    def read_globally(self) -> frozenset[str]:
        """What only global parts read: each instance reads it whole, by a consumer that has no group and commits
        nothing.
        """
        in_tasks = (part.read for part in self.parts if not part.is_global)
        return frozenset(t for part in self.parts if part.is_global for t in part.read).difference(*in_tasks)

    @property
    def written(self) -> frozenset[str]:
        return frozenset(topic for part in self.parts for topic in part.written)

    @property
    def stores(self) -> frozenset[str]:
        """Those that can have a changelog."""
        return frozenset(store for part in self.parts if not part.is_global for store in part.stores)

    @property
    def through(self) -> frozenset[str]:
        """Topics that it both writes and reads: internal ones without their application id, and intermediate ones of
        the user.
        """
        return self.read & self.written


def parse_topology(text: str) -> Topology:
    """Raises `TopologyProblem`."""
    if len(text) > MAX_CHARS:
        raise TopologyProblem(f"it has more than {MAX_CHARS} characters")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    heads = [at for at, (_, line) in enumerate(lines) if _SUB.match(line)]
    if not heads:
        raise TopologyProblem("it has no line `Sub-topology: 0`; it must be the text of Topology#describe")
    parts = tuple(_part(lines[start:stop]) for start, stop in pairwise([*heads, len(lines)]))
    _check_names(parts)
    return Topology(parts)


def _part(lines: list[tuple[int, str]]) -> SubTopology:
    head = _SUB.match(lines[0][1])
    assert head is not None
    return SubTopology(int(head[1]), "for global store" in head[2], tuple(_nodes(lines[1:])))


def _nodes(lines: list[tuple[int, str]]) -> Iterator[Node]:
    at = 0
    while at < len(lines):
        number, line = lines[at]
        at += 1
        if not line:
            continue
        match = _NODE.fullmatch(line)
        if match is None:
            raise TopologyProblem(f"line {number} is no source, processor, sink or arrow: {line[:80]!r}")
        successors: tuple[str, ...] = ()
        while at < len(lines) and (arrow := _ARROW.fullmatch(lines[at][1])):
            if arrow[1] == "-->" and arrow[2] != "none":
                successors = _listed(arrow[2])
            at += 1
        yield _node(match, successors)


def _node(match: re.Match[str], successors: tuple[str, ...]) -> Node:
    kind, name, what, value = NodeKind(match[1].lower()), match[2], match[3], match[4].strip()
    if what == "stores":
        return Node(name, kind, stores=_bracketed(value), successors=successors)
    if what == "topic":
        return Node(name, kind, topics=(value,), successors=successors)
    if what == "topics" and value.startswith("["):
        return Node(name, kind, topics=_bracketed(value), successors=successors)
    return Node(name, kind, pattern=value if what == "topics" else None, successors=successors)


def _bracketed(text: str) -> tuple[str, ...]:
    return _listed(text.removeprefix("[").removesuffix("]"))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _check_names(parts: tuple[SubTopology, ...]) -> None:
    names = {node.name for part in parts for node in part.nodes}
    for part in parts:
        for node in part.nodes:
            lost = next((name for name in node.successors if name not in names), None)
            if lost is not None:
                raise TopologyProblem(f"{node.name} leads to {lost}, which is not there: is the text cut off?")
