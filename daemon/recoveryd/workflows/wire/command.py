"""The data of the commands of workflows."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import GroupName, Name
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import wrong
from recoveryd.workflows.model.commands import Ack, Reset, Rollback
from recoveryd.workflows.model.positions import OnNoRecord, OnOutOfRange
from recoveryd.workflows.model.spec import ResetSpec, StateChoice
from recoveryd.workflows.wire.positions import TO_SCHEMA, parse_to, parse_topics

Statement = Annotated[str, Field(min_length=1, max_length=1_000)]


class ResetData(CommandData):
    unit: Name | None = Field(default=None, description="a unit of the daemon's config; or `cluster` and `group`")
    cluster: Name | None = Field(
        default=None, description="a named cluster of the daemon's config; `main` when left out"
    )
    group: GroupName | None = Field(default=None, description="the consumer group, where no unit is named")
    to: Annotated[Any, PlainValidator(parse_to), WithJsonSchema(TO_SCHEMA)] = Field(
        description='`earliest`, `latest`, `current`, `{"offset":n}`, `{"offsets":{"topic":{"0":n}}}`, `{"shift":n}`, a time with zone, or a duration back '
        "from now (`-2h`)"
    )
    topics: (
        Annotated[
            Any,
            PlainValidator(parse_topics),
            WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]}),
        ]
        | None
    ) = Field(
        default=None,
        description='topics, or `{"topic":[partitions]}`; left out: the inputs of the unit, or every topic on which the group has a commit',
    )
    on_out_of_range: Literal["fail", "clamp"] = Field(
        default="fail", description="what to do with a position outside the log; `clamp` takes the nearest and says so"
    )
    on_no_record: Literal["fail", "at_end"] = Field(
        default="fail",
        description="what to do where no record is as new as the time; `at_end` takes the end and says so",
    )
    confirm: Annotated[dict[Literal["retention", "outputs", "scope"], Statement], Field(max_length=3)] = Field(
        default={},
        description="of `retention`, `outputs` and `scope`, what somebody says where the plan cannot tell: above all what is "
        "rebuilt, and how doubled or missing results are dealt with",
    )
    state: Literal["keep", "clean"] | None = Field(
        default=None,
        description="what becomes of the unit's state, required of one that keeps some unless `to` is `current`: `keep` leaves it "
        "as it is, `clean` waits until a person has emptied it (not of Kafka Streams: `reprocess` does that)",
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    @model_validator(mode="after")
    def _names_whom(self) -> Self:
        if (self.unit is None) == (self.group is None):
            raise wrong("needs unit or group, and not both", "Name the unit, or cluster and group.")
        if self.unit is not None and self.cluster is not None:
            raise wrong("has a cluster beside a unit, which knows its own", "Leave cluster out.")
        return self

    def to_core(self) -> ResetSpec:
        return ResetSpec(
            cluster=self.cluster or "main",
            group=self.group or "",
            to=self.to,
            unit=self.unit,
            topics=self.topics,
            on_out_of_range=OnOutOfRange(self.on_out_of_range),
            on_no_record=OnNoRecord(self.on_no_record),
            confirm={str(item): said for item, said in self.confirm.items()},
            state=None if self.state is None else StateChoice(self.state),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


class RollbackData(CommandData):
    pass


class AckData(CommandData):
    step: Name = Field(description="the step that waits for a person")
    note: str | None = Field(default=None, max_length=1_000, description="what was found or done")


RESET_FORM: Final = verb_form(
    ResetData,
    "new workflow: set the committed offsets of a group that has no members, after noting where it was",
    lambda meta, data: Reset(meta, data.to_core()),
)
ROLLBACK_FORM: Final = verb_form(
    RollbackData, "put back what a workflow changed, where nobody else changed it since", lambda meta, _: Rollback(meta)
)
ACK_FORM: Final = verb_form(
    AckData,
    "answer a step that waits for a person",
    lambda meta, data: Ack(meta, data.step, data.note or ""),
)
