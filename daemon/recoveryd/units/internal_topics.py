"""Whose an internal topic is. Streams names what it makes for an application `<application.id>-<name>-changelog` and so
on, which proves nothing by itself: ids contain each other, people name stores, and a topic of a user may look the same.
Who deletes by prefix deletes topics of others.

A topic is *certain* when a list in the config, the application's own topology or the broker (for groups of the
`streams` protocol) names it, or when its name is one that Streams itself generates, with an index, under exactly this
id, and nobody else that is known can own it. Everything else that begins with the id and looks internal is *ambiguous*:
it is listed, with the reason, and never touched.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from recoveryd.units.topology import Topology

_OUTPUT_OF: Final = "it is an output of "
CHANGELOG: Final = "-changelog"
REPARTITION: Final = "-repartition"
_SUFFIXES: Final = (
    CHANGELOG,
    REPARTITION,
    "-subscription-registration-topic",
    "-subscription-response-topic",
)
_NODE: Final = r"(?:KSTREAM|KTABLE|COGROUPKSTREAM)-[A-Z]+(?:-[A-Z]+)*-\d{10}"
# Names that Streams chose itself: the kind of node, what it does, its index in the topology.
_GENERATED: Final = re.compile(rf"{_NODE}(?:-store)?-(?:changelog|repartition)", re.ASCII)
_FOREIGN_KEY: Final = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d{10}-topic", re.ASCII)
_ANY_FOREIGN_KEY: Final = re.compile(rf"(?:.+-)?{_FOREIGN_KEY.pattern}", re.ASCII)
_PART_GENERATED: Final = re.compile(rf"-{_NODE}(?:-|$)", re.ASCII)
# The store of a table without a name has that of the topic it reads.
_TABLE: Final = re.compile(r"(.+)-STATE-STORE-\d{10}-changelog", re.ASCII)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may own internal topics: a unit, or a group that the cluster lists. `inputs` None = nobody knows what it
    reads; `listed` stands in the config.
    """

    application_id: str
    inputs: frozenset[str] | None = None
    topology: Topology | None = None
    listed: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    def rest(self, topic: str) -> str | None:
        """What follows `<application.id>-` in the name; None when it does not begin so."""
        start = f"{self.application_id}-"
        return topic[len(start) :] if topic.startswith(start) and len(topic) > len(start) else None

    def names(self, topic: str) -> bool:
        """Whether the config or the topology says that this topic is its own."""
        rest = self.rest(topic)
        return topic in self.listed or (
            rest is not None and self.topology is not None and rest in internal_names(self.topology)
        )


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """`certain` are the application's own. Each of the `ambiguous` stands with the reason."""

    certain: tuple[str, ...] = ()
    ambiguous: tuple[tuple[str, str], ...] = ()


def find_internal_topics(
    owner: Owner, topics: Collection[str], others: Collection[Owner], named_by_broker: Collection[str] = ()
) -> InternalTopics:
    """Of `topics`, all that the cluster has, those that belong to `owner`. `others` are all other units and groups of
    the cluster that may be of Streams.
    """
    names = frozenset(topics)
    known = [other for other in others if other.application_id != owner.application_id]
    certain: list[str] = []
    ambiguous: list[tuple[str, str]] = []
    for topic in sorted(names):
        if topic in named_by_broker or owner.names(topic):
            certain.append(topic)
        elif _is_in_question(owner, topic) and not any(other.names(topic) for other in known):
            doubt = _doubt(owner, topic, known, names)
            if doubt:
                ambiguous.append((topic, doubt))
            else:
                certain.append(topic)
    return InternalTopics(tuple(certain), tuple(ambiguous))


def internal_names(topology: Topology) -> frozenset[str]:
    """What a topology calls its internal topics, without the id. Not each of these exists: a table can use its input in
    place of a changelog.
    """
    between = frozenset(name for name in topology.through if _looks_internal(name))
    return between | frozenset(f"{store}{CHANGELOG}" for store in topology.stores)


def is_changelog(topic: str) -> bool:
    """By its name alone: of the internal topics of an application, those that keep its state."""
    return topic.endswith(CHANGELOG)


def changelog_of(application_id: str, store: str) -> str:
    return f"{application_id}-{store}{CHANGELOG}"


def store_of(application_id: str, changelog: str) -> str:
    return changelog.removeprefix(f"{application_id}-").removesuffix(CHANGELOG)


def has_index(topic: str) -> bool:
    """Whether Streams numbered what the topic is for, so that another number comes with the next change of the code."""
    return bool(_PART_GENERATED.search(topic) or _TABLE.fullmatch(topic))


def may_be_of(application_id: str, topic: str, inputs: Collection[str]) -> bool:
    """Of a topic that is ambiguous, by its name alone: whether it may be the application's own all the same. One of
    which a part was generated below a longer id is not, and neither is the table of a topic that it does not read.
    """
    rest = Owner(application_id).rest(topic)
    if rest is None or _PART_GENERATED.search(rest):
        return False
    table = _TABLE.fullmatch(rest)
    return table is None or table[1] in inputs or bool(_GENERATED.fullmatch(rest))


def is_declared(doubt: str) -> bool:
    """Of a topic that is ambiguous with this reason: whether the config says that it is another unit's, which writes it
    for its readers.
    """
    return doubt.startswith(_OUTPUT_OF)


def _is_in_question(owner: Owner, topic: str) -> bool:
    rest = owner.rest(topic)
    is_told_otherwise = topic in owner.outputs or topic in (owner.inputs or ())
    return rest is not None and _looks_internal(rest) and not is_told_otherwise


def _looks_internal(rest: str) -> bool:
    """Whether Streams could have put this behind `<application.id>-`."""
    return any(rest.endswith(suffix) and rest != suffix for suffix in _SUFFIXES) or bool(
        _ANY_FOREIGN_KEY.fullmatch(rest)
    )


def _doubt(owner: Owner, topic: str, others: Collection[Owner], topics: frozenset[str]) -> str:
    """Why it is not certain; empty when it is."""
    writer = next((other.application_id for other in others if topic in other.outputs), None)
    if writer is not None:
        return f"{_OUTPUT_OF}{writer}"
    rivals = sorted(other.application_id for other in others if _can_own(other, topic, topics))
    if rivals:
        return f"{rivals[0]} can own it as well"
    if owner.listed or owner.topology is not None:
        return f"the {'list of internal topics' if owner.listed else 'topology'} does not name it"
    return _doubt_of_name(owner, owner.rest(topic) or "", topics)


def _doubt_of_name(owner: Owner, rest: str, topics: frozenset[str]) -> str:
    if _GENERATED.fullmatch(rest) or _FOREIGN_KEY.fullmatch(rest):
        return ""
    if _PART_GENERATED.search(rest):
        return "an application whose id is longer seems to have made it"
    table = _TABLE.fullmatch(rest)
    if table is None:
        return "somebody chose its name: only the topology or a list can tell whose it is"
    if table[1] not in (owner.inputs or ()):
        return f"it would be the table of {table[1]}, which is not an input"
    shorter = next((name for name in _tails(table[1]) if name in topics), None)
    return "" if shorter is None else f"an application whose id is longer can own it, as the table of {shorter}"


def _can_own(other: Owner, topic: str, topics: frozenset[str]) -> bool:
    """Whether Streams could have made it for another id. A name of which a part was generated below a longer id was not
    chosen for a shorter one.
    """
    rest = other.rest(topic)
    if rest is None or not _looks_internal(rest) or other.listed or other.topology is not None:
        return False  # who names its topics would have named it
    if _GENERATED.fullmatch(rest) or _FOREIGN_KEY.fullmatch(rest):
        return True
    table = _TABLE.fullmatch(rest)
    if table is not None:
        return table[1] in (topics if other.inputs is None else other.inputs)
    return _PART_GENERATED.search(f"-{rest}") is None


def _tails(name: str) -> Iterator[str]:
    """What is left of a name behind each of its hyphens."""
    at = name.find("-")
    while at >= 0:
        yield name[at + 1 :]
        at = name.find("-", at + 1)
