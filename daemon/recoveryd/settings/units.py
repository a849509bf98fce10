"""Options of units: `units:`, or one file per unit under `units_dir`.

What a unit is for the rules stands in `recoveryd.units.model`.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.settings.kinds import Duration, Section, TopicName, Word
from recoveryd.settings.unit_control import UnitControl
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb, OutputKind
from recoveryd.units.model import Behaviour, ClauseName, ConfirmationPolicy, ControlKind, UnitKind

_GROUP: Final = Field(min_length=1, max_length=255)


class UnitOutput(Section):
    behaviour: Behaviour | None = Field(
        default=None, description="idempotent | transactional | append_only: what writing a record twice does there."
    )
    owner: Annotated[str, _GROUP] | None = Field(default=None, description="Who answers for what lies there.")


class UnitSection(Section):
    kind: UnitKind = Field(description="streams | group | connect | flink.")
    cluster: Word = Field(default="main", description="A name under `clusters`.")
    group: Annotated[str, _GROUP] = Field(description="application.id, group id or name of the connector.")
    inputs: Annotated[tuple[TopicName, ...], Field(max_length=1000)] = Field(
        default=(), description="Topics that it reads; exact names, each must exist."
    )
    intermediate: Annotated[tuple[TopicName, ...], Field(max_length=1000)] = Field(
        default=(), description="Topics that the application itself writes and reads again, not internal ones."
    )
    outputs: Annotated[dict[TopicName, UnitOutput], Field(max_length=1000)] = Field(
        default={}, description="Topics that it writes: NAME: {behaviour, owner}."
    )
    internal_topics: Literal["auto"] | Annotated[tuple[TopicName, ...], Field(max_length=10_000)] = Field(
        default="auto", description="auto: found by their exact owner; or a list."
    )
    topology: str | None = Field(default=None, description="File with the text of Topology#describe, beside this one.")
    stateful: bool | None = Field(
        default=None, description="Whether it has state; null is told by its kind and topology."
    )
    owner: Annotated[str, _GROUP] | None = Field(default=None, description="Who answers for it.")
    approvers: Annotated[tuple[Annotated[str, _GROUP], ...], Field(max_length=100)] = Field(
        default=(), description="Sources of commands that may approve what is done to it; never the requester."
    )
    retention_objective: Duration | None = Field(
        default=None, description="How far back its inputs must be kept so that they can be processed again."
    )
    schema_note: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, alias="schema", description="What schemas its inputs had and have, in a sentence."
    )
    deterministic: bool | None = Field(default=None, description="Whether the same input gives the same output.")
    exactly_once: bool | None = Field(
        default=None,
        description="Whether it commits offsets, state and outputs together; counts where brokers cannot tell.",
    )
    confirmations: ConfirmationPolicy = Field(
        default=ConfirmationPolicy.TOLD,
        description="told | asked | required: what a reset does that leaves a confirmation open: say so, ask, or be refused.",
    )
    sink_behaviour: Behaviour | None = Field(
        default=None,
        description="idempotent | transactional | append_only: what a record that comes twice does to what it writes outside of Kafka.",
    )
    required_clauses: Annotated[tuple[ClauseName, ...], Field(max_length=6)] = Field(
        default=(),
        description="retention | offsets | topic_design | schema | determinism | output_idempotence: of its contract; a plan that finds "
        "one of these missing or bad is refused, others are told.",
    )
    control: UnitControl = Field(default=UnitControl(), description="Who stops and starts it.")

    @model_validator(mode="before")
    @classmethod
    def _outputs_may_say_nothing(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("outputs"), dict):
            return value | {"outputs": {name: {} if of is None else of for name, of in value["outputs"].items()}}
        return value

    @model_validator(mode="after")
    def _names_each_topic_once(self) -> Self:
        if not self.inputs and self.kind is not UnitKind.CONNECT:
            raise ValueError("inputs needs at least one topic")
        seen: dict[str, str] = {}
        internal = () if self.internal_topics == "auto" else self.internal_topics
        for place, names in (
            ("inputs", self.inputs),
            ("intermediate", self.intermediate),
            ("outputs", self.outputs),
            ("internal_topics", internal),
        ):
            for name in names:
                if name in seen:
                    both = f"{place} twice" if seen[name] == place else f"{seen[name]} and {place}"
                    raise ValueError(f"{name} stands in {both}; what it writes and reads again is intermediate")
                seen[name] = place
        return self

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.control.kind is ControlKind.CONNECT and self.kind is not UnitKind.CONNECT:
            raise ValueError(f"control.kind connect is for connectors; this is a {self.kind.value}")
        if self.topology is not None and self.kind is not UnitKind.STREAMS:
            raise ValueError(f"topology is of Kafka Streams; this is a {self.kind.value}")
        return self


class ApprovalRuleSection(Section):
    verbs: Annotated[tuple[ApprovedVerb, ...], Field(max_length=20)] = Field(
        default=(),
        description="reset | reprocess | savepoint | restore_savepoint | upgrade | runbook | watch; empty: all.",
    )
    units: Annotated[tuple[Annotated[str, _GROUP], ...], Field(max_length=1_000)] = Field(
        default=(), description="Names of units, in which * stands for anything; empty: all."
    )
    outputs: Annotated[tuple[OutputKind, ...], Field(max_length=4)] = Field(
        default=(),
        description="idempotent | transactional | append_only | undeclared: units with such an output; empty: all.",
    )
    by: ApprovalBy = Field(
        description="nobody | owner | approvers | owner_or_approvers: who has to approve; never who asked for it."
    )

    @property
    def rule(self) -> ApprovalRule:
        return ApprovalRule(self.by, frozenset(self.verbs), self.units, frozenset(self.outputs))
