"""The data of `runbook` and of the commands that only a runbook takes."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from recoveryd.recovery.wire.bounds import parse_offsets
from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import AnyTopic, ByteRate, Name, Runtime, Topic
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import shown, wrong
from recoveryd.workflows.model.commands import Discard, Escalate, Promote, Runbook
from recoveryd.workflows.model.spec import RunbookGate, RunbookPath, RunbookSpec
from recoveryd.workflows.wire.positions import TOPICS_MOST, topic_name
from recoveryd.workflows.wire.reprocess import OUTPUTS_SCHEMA, parse_outputs

_MARKS: Final = "by topic and partition, the next offset of an input that is not in it"
_Why = Annotated[str, Field(min_length=1, max_length=1_000)]
_PAIR: Final = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
_BY_PARTITION: Final = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}


def _parse_marks(value: Any) -> dict[str, dict[int, int]]:
    if not isinstance(value, dict) or len(value) > TOPICS_MOST:
        raise wrong('is no object such as {"topic": {"0": 17}}')
    return {topic_name(topic): dict(parse_offsets(found).offsets) for topic, found in value.items()}


def _parse_ranges(value: Any) -> dict[int, tuple[int, int]]:
    is_pairs = isinstance(value, dict) and all(isinstance(pair, list) and len(pair) == 2 for pair in value.values())
    if not is_pairs:
        raise wrong(f"is {shown(value)}", 'Write {"0": [start, stop]}.')
    if not value:
        return {}
    starts, stops = (parse_offsets({p: pair[at] for p, pair in value.items()}).offsets for at in (0, 1))
    turned = next((p for p in starts if stops[p] < starts[p]), None)
    if turned is not None:
        raise wrong(f"ends before it begins in partition {turned}", "Write [start, stop).")
    return {p: (starts[p], stops[p]) for p in starts}


_Marks = Annotated[
    Any, PlainValidator(_parse_marks), WithJsonSchema({"type": "object", "additionalProperties": _BY_PARTITION})
]
_Ranges = Annotated[
    Any, PlainValidator(_parse_ranges), WithJsonSchema({"type": "object", "additionalProperties": _PAIR})
]


class RunbookData(CommandData):
    unit: Name = Field(description="a unit of the daemon's config")
    path: Literal["auto", "resume", "restore_state", "replay", "shadow", "escalate"] = Field(
        default="auto",
        description="the way; `auto` proposes one, with a sentence, and a person confirms it by `ack`",
    )
    savepoint: Name | None = Field(
        default=None, description="of `restore_state`; left out: the newest of the unit, and without one empty state"
    )
    outputs: Annotated[Any, PlainValidator(parse_outputs), WithJsonSchema(OUTPUTS_SCHEMA)] = Field(
        default_factory=dict,
        description="of `restore_state`, as for `reprocess`; an output that is not named is kept if it is idempotent",
    )
    topic: AnyTopic | None = Field(
        default=None, description="of `replay` and `shadow`; left out: where the three truths lie apart"
    )
    ranges: _Ranges = Field(default_factory=dict, description="`{partition: [start, stop]}` of `topic`, without stop")
    target: Topic | None = Field(
        default=None, description="the topic that `replay` writes, and that a `shadow` may be promoted to"
    )
    sink: _Marks = Field(default_factory=dict, description=f"how far the sink goes: {_MARKS}")
    state: _Marks = Field(default_factory=dict, description=f"how far a checkpoint goes: {_MARKS}")
    checkpoint: str | None = Field(default=None, max_length=500, description="the id of that checkpoint")
    error_topics: list[AnyTopic] = Field(
        default_factory=list, max_length=50, description="topics to which nothing may come meanwhile"
    )
    quotas: dict[str, ByteRate] = Field(
        default_factory=dict,
        max_length=100,
        description="how much client ids of anybody may read per second, by client id; put back in the end",
    )
    max_bytes_per_s: ByteRate | None = Field(default=None, description="how fast its replays copy at most")
    waive: dict[Literal["lag", "output", "state", "errors", "live"], _Why] = Field(
        default_factory=dict, description="gates that need not be green, each with the reason"
    )
    hold: Runtime | None = Field(
        default=None, description="of `shadow`: so long its gates are green before it may be promoted"
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if bool(self.ranges) != (self.topic is not None):
            raise wrong("needs topic and ranges together, or neither", 'Say topic and {"0": [start, stop]}.')
        return self

    def to_core(self) -> RunbookSpec:
        return RunbookSpec(
            unit=self.unit,
            path=RunbookPath(self.path),
            savepoint=self.savepoint,
            outputs=self.outputs,
            topic=self.topic,
            ranges=self.ranges,
            target=self.target,
            sink=self.sink,
            state=self.state,
            checkpoint=self.checkpoint,
            error_topics=tuple(self.error_topics),
            quotas=self.quotas,
            max_bytes_per_s=self.max_bytes_per_s,
            waive={RunbookGate(gate): why for gate, why in self.waive.items()},
            hold_ms=self.hold or 0,
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


class PromoteData(CommandData):
    pass


class DiscardData(CommandData):
    pass


class EscalateData(CommandData):
    pass


RUNBOOK_FORM: Final = verb_form(
    RunbookData,
    "new workflow: take an application that stands still back to one that is verified, in seven steps",
    lambda meta, data: Runbook(meta, data.to_core()),
)
PROMOTE_FORM: Final = verb_form(
    PromoteData, "what the shadow of a runbook wrote goes to its target", lambda meta, _: Promote(meta)
)
DISCARD_FORM: Final = verb_form(
    DiscardData, "what the shadow of a runbook wrote goes away", lambda meta, _: Discard(meta)
)
ESCALATE_FORM: Final = verb_form(
    EscalateData, "end a runbook, and hand over what is known", lambda meta, _: Escalate(meta)
)
