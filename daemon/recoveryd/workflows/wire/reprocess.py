"""The data of `reprocess`."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import TOPIC_HINT, Name, is_topic_name
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import shown, wrong
from recoveryd.workflows.model.commands import Reprocess
from recoveryd.workflows.model.positions import OnNoRecord, OnOutOfRange
from recoveryd.workflows.model.spec import IntermediatePolicy, OutputChoice, OutputPolicy, ReprocessSpec
from recoveryd.workflows.wire.positions import TO_SCHEMA, TOPICS_MOST, parse_to, topic_name

_POLICIES: Final = tuple(policy.value for policy in OutputPolicy if policy is not OutputPolicy.NEW)
_BETWEEN: Final = tuple(policy.value for policy in IntermediatePolicy)
OUTPUTS_SCHEMA: Final = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"enum": list(_POLICIES)},
            {
                "type": "object",
                "properties": {"new": {"type": "string"}},
                "required": ["new"],
                "additionalProperties": False,
            },
        ]
    },
}
_BETWEEN_SCHEMA: Final = {"type": "object", "additionalProperties": {"enum": list(_BETWEEN)}}


def parse_outputs(value: Any) -> dict[str, OutputChoice]:
    choices = {topic_name(name): _parse_choice(name, choice) for name, choice in _object(value).items()}
    names = [choice.name for choice in choices.values() if choice.name is not None]
    if len(set(names)) < len(names):
        raise wrong("gives two outputs the same new topic", "Choose different names.")
    return choices


def _parse_choice(name: str, choice: Any) -> OutputChoice:
    if isinstance(choice, dict) and list(choice) == ["new"]:
        return OutputChoice(OutputPolicy.NEW, _new_topic(choice["new"]))
    if choice not in _POLICIES:
        hint = f'Say {", ".join(_POLICIES)} or {{"new": "another-topic"}}.'
        raise wrong(f"has {shown(choice)} for {shown(name)}", hint)
    return OutputChoice(OutputPolicy(choice))


def _new_topic(name: Any) -> str:
    """One that is to be made has to be one that Kafka takes, or it would be refused once the application is stopped."""
    if not isinstance(name, str) or not is_topic_name(name):
        raise wrong(f"names {shown(name)}, which is no topic", TOPIC_HINT)
    if name.startswith("_"):
        raise wrong(f"names {shown(name)}, an internal topic", code=Code.INTERNAL_TOPIC)
    return name


def _parse_between(value: Any) -> dict[str, IntermediatePolicy]:
    found = {}
    for name, policy in _object(value).items():
        if policy not in _BETWEEN:
            raise wrong(f"has {shown(policy)} for {shown(name)}", f"Say {' or '.join(_BETWEEN)}.")
        found[topic_name(name)] = IntermediatePolicy(policy)
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > TOPICS_MOST:
        raise wrong('is no object such as {"topic": "recreate"}')
    return value


class ReprocessData(CommandData):
    unit: Name = Field(description="a unit of the daemon's config")
    start: Annotated[Any, PlainValidator(parse_to), WithJsonSchema(TO_SCHEMA)] = Field(
        default="earliest",
        validate_default=True,
        alias="from",
        description="where the inputs are read from: as `to` of `reset`",
    )
    outputs: Annotated[Any, PlainValidator(parse_outputs), WithJsonSchema(OUTPUTS_SCHEMA)] = Field(
        default_factory=dict,
        description="for every output of the unit `recreate`, `keep` (overwritten by key), `append` (old results stay "
        'beside new ones) or `{"new": name}`',
    )
    intermediate: Annotated[Any, PlainValidator(_parse_between), WithJsonSchema(_BETWEEN_SCHEMA)] = Field(
        default_factory=dict,
        description="for intermediate topics of the unit `seek_to_end` (when left out: what lies there is not processed twice) "
        "or `recreate`",
    )
    accept_missing: int = Field(
        default=0, ge=0, strict=True, description="so many records in front of the inputs may be gone"
    )
    keep_inputs: bool = Field(
        default=False,
        strict=True,
        description="retention takes nothing from the inputs until the workflow ended; put back then, however it ended",
    )
    on_out_of_range: Literal["fail", "clamp"] = Field(
        default="fail", description="what to do with a position outside the log; `clamp` takes the nearest and says so"
    )
    on_no_record: Literal["fail", "at_end"] = Field(
        default="fail",
        description="what to do where no record is as new as the time; `at_end` takes the end and says so",
    )
    dry_run: bool = Field(default=False, description="plan only: ends in `planned`")
    plan_hash: PlanHash | None = Field(
        default=None, description="run only if the plan made now has this hash, else rejected RCV-1012"
    )

    def to_core(self) -> ReprocessSpec:
        return ReprocessSpec(
            unit=self.unit,
            to=self.start,
            outputs=self.outputs,
            intermediate=self.intermediate,
            accept_missing=self.accept_missing,
            keep_inputs=self.keep_inputs,
            on_out_of_range=OnOutOfRange(self.on_out_of_range),
            on_no_record=OnNoRecord(self.on_no_record),
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


REPROCESS_FORM: Final = verb_form(
    ReprocessData,
    "new workflow: an application begins again from a point, with empty state",
    lambda meta, data: Reprocess(meta, data.to_core()),
)
