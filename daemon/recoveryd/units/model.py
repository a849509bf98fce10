"""A unit as the config says it. Commands only name one; what the clusters say of it is looked up each time
(`recoveryd.units.facts`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recoveryd.units.topology import Topology

_TOLD_MS: Final = 120_000  # how long after `stop_timeout` it may be told what became of it


class UnitKind(StrEnum):
    STREAMS = "streams"
    GROUP = "group"
    CONNECT = "connect"
    FLINK = "flink"


class Behaviour(StrEnum):
    """What happens where an output is written twice."""

    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    APPEND_ONLY = "append_only"


class ConfirmationPolicy(StrEnum):
    """Before offsets are set back. `told`: the plan says what is open; `asked`: a person is asked what comes of it
    where an output does not take a record twice; `required`: a command is refused while one of the four confirmations
    is open.
    """

    TOLD = "told"
    ASKED = "asked"
    REQUIRED = "required"


class ClauseName(StrEnum):
    """Of the contract by which a unit's inputs can be processed again, in the order in which it is told."""

    RETENTION = "retention"
    OFFSETS = "offsets"
    TOPIC_DESIGN = "topic_design"
    SCHEMA = "schema"
    DETERMINISM = "determinism"
    OUTPUT_IDEMPOTENCE = "output_idempotence"


class ControlKind(StrEnum):
    """Who stops and starts the application."""

    MANUAL = "manual"
    PROCESS = "process"
    WEBHOOK = "webhook"
    KUBERNETES = "kubernetes"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class Output:
    """A topic that the unit writes for others; None = nobody has said it."""

    behaviour: Behaviour | None = None
    owner: str | None = None


def group_of_sink(connector: str) -> str:
    """The group that Connect makes for a sink connector, unless its config says otherwise."""
    return f"connect-{connector}"


@dataclass(frozen=True, slots=True)
class Unit:
    """`group` is the application.id, the group id or the connector's name. `internal_topics` None = found by exact
    owner.

    `intermediate` are topics that the application itself writes and reads again, not internal ones. `approvers` are
    sources of commands. `schema` and `is_deterministic` are what people say of its inputs' schemas, and of whether the
    same input gives the same output; `is_exactly_once` counts only where brokers cannot tell. `required_clauses`: of
    its contract, those without which nothing is processed again. `sink_behaviour`: of what it writes outside of Kafka.
    `stop_timeout_ms`: how long whoever controls it may take to stop it, and to start it.
    """

    name: str
    kind: UnitKind
    cluster: str
    group: str
    inputs: tuple[str, ...]
    intermediate: tuple[str, ...] = ()
    outputs: Mapping[str, Output] = field(default_factory=dict)
    internal_topics: tuple[str, ...] | None = None
    topology: Topology | None = None
    stateful: bool | None = None
    owner: str | None = None
    approvers: tuple[str, ...] = ()
    retention_objective_ms: int | None = None
    control: ControlKind = ControlKind.MANUAL
    schema: str | None = None
    is_deterministic: bool | None = None
    is_exactly_once: bool | None = None
    confirmations: ConfirmationPolicy = ConfirmationPolicy.TOLD
    required_clauses: tuple[ClauseName, ...] = ()
    sink_behaviour: Behaviour | None = None
    stop_timeout_ms: int = 0

    def wait_ms(self, least_ms: int) -> int:
        """How long to wait until it is stopped or started: whoever controls it may need all the time that the config
        gives, and tells a while later what became of it.
        """
        return max(least_ms, self.stop_timeout_ms + _TOLD_MS)

    @property
    def consumer_group(self) -> str:
        """The group by which it reads."""
        return group_of_sink(self.group) if self.kind is UnitKind.CONNECT else self.group

    @property
    def appended(self) -> tuple[str, ...]:
        """Outputs in which a record that is written again is there twice, and those of which nobody said that it is
        not.
        """
        return tuple(n for n, output in self.outputs.items() if output.behaviour in {None, Behaviour.APPEND_ONLY})

    @property
    def connector(self) -> str:
        """The unit's own name, where Kafka Connect is asked for its offsets; empty = they are
        committed to its group.
        """
        return self.name if self.kind is UnitKind.CONNECT and self.control is ControlKind.CONNECT else ""

    @property
    def keeps_state(self) -> bool:
        """What nobody said of an application of Streams is taken for the case that needs more care."""
        if self.stateful is not None:
            return self.stateful
        return bool(self.topology.stores) if self.topology is not None else self.kind is UnitKind.STREAMS

    @property
    def read_globally(self) -> frozenset[str]:
        """What it reads into global tables only: its group never has a position there. Empty where no topology says
        it.
        """
        return self.topology.read_globally if self.topology is not None else frozenset()

    @property
    def positioned_inputs(self) -> tuple[str, ...]:
        """Those on which its group commits."""
        return tuple(name for name in self.inputs if name not in self.read_globally)

    @property
    def positioned_between(self) -> tuple[str, ...]:
        return tuple(name for name in self.intermediate if name not in self.read_globally)

    @property
    def positioned(self) -> tuple[str, ...]:
        return (*self.positioned_inputs, *self.positioned_between)

    @property
    def own_topics(self) -> frozenset[str]:
        """Topics that the config names for it, internal ones among them."""
        return frozenset((*self.inputs, *self.intermediate, *self.outputs, *(self.internal_topics or ())))

    def is_table_of_input(self, store: str) -> bool:
        """Whether the store, by its name, is a table read from an input. With optimisation switched on, Streams uses
        the input as the changelog of such a table and makes none.
        """
        return any(store.startswith(f"{name}-STATE-STORE-") for name in self.inputs)
