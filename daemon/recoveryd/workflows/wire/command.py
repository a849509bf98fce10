"""The data of the commands of workflows."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.recovery.wire.bounds import OFFSET_SCHEMA, parse_offsets
from recoveryd.recovery.wire.parts import PlanHash
from recoveryd.wire.fields import (
    MAX_OFFSET,
    MAX_PARTITION,
    TIME_SCHEMA,
    GroupName,
    Name,
    is_duration,
    is_int_to,
    now_ms_of,
    read_duration,
    read_time,
)
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import nearest, shown, wrong
from recoveryd.workflows.positions import AtTopicOffsets, Current, OnNoRecord, OnOutOfRange, Shift, To
from recoveryd.workflows.spec import Reset, ResetSpec, Rollback

_TOPICS_MOST: Final = 1_000
_WORDS: Final[dict[str, To]] = {"earliest": Earliest(), "latest": Latest(), "current": Current()}
_FORMS: Final = ("offset", "offsets", "shift")
_TO_SCHEMA: Final = {
    "anyOf": [
        {"enum": [*_WORDS]},
        {
            "type": "object",
            "properties": {"offset": OFFSET_SCHEMA},
            "required": ["offset"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"offsets": {"type": "object"}},
            "required": ["offsets"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"shift": {"type": "integer"}},
            "required": ["shift"],
            "additionalProperties": False,
        },
        TIME_SCHEMA,
        {"type": "string", "pattern": "^-", "examples": ["-2h"], "description": "duration back from now"},
    ]
}


def _parse_to(value: Any, info: ValidationInfo) -> To:
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else AtTime(_parse_moment(value, info))
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "offset":
            return AtOffset(_whole(inner, name, 0))
        if name == "shift":
            return Shift(_whole(inner, name, -MAX_OFFSET))
        if name == "offsets":
            return _parse_by_topic(inner)
        close = nearest(name, _FORMS) or "offset"
        raise wrong(f"has the unknown field {shown(name)}", f'Write {{"{close}": ...}}.', code=Code.UNKNOWN_FIELD)
    hint = f'Write {", ".join(_WORDS)}, {{"offset": n}}, {{"offsets": {{"topic": {{"0": n}}}}}}, {{"shift": n}}, a time with zone, or -2h.'
    raise wrong(f"is {shown(value)}", hint)


def _parse_moment(text: str, info: ValidationInfo) -> int:
    if text.startswith("-"):
        time_ms = now_ms_of(info) - read_duration(text[1:], f"is {shown(text)}: it")
        if time_ms < 0:
            raise wrong(f"is {shown(text)}, which reaches before 1970", "Use earliest for all there is.")
        return time_ms
    if not text[:1].isdigit():
        close = nearest(text, _WORDS)
        hint = f"Did you mean {close}?" if close else f"It is one of {', '.join(_WORDS)}, a time with zone, or -2h."
        raise wrong(f"is {shown(text)}", hint)
    if is_duration(text):
        raise wrong(
            f"is {shown(text)}, a duration without direction", f"Write -{text[:40]} for a duration back from now."
        )
    return read_time(text)


def _parse_by_topic(value: Any) -> AtTopicOffsets:
    if not isinstance(value, dict) or not value or len(value) > _TOPICS_MOST:
        raise wrong('has no offsets: an object such as {"topic": {"0": 17}} is needed')
    return AtTopicOffsets({topic: dict(parse_offsets(found).offsets) for topic, found in value.items()})


def _whole(value: Any, name: str, least: int) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value <= MAX_OFFSET:
        raise wrong(f"has {name} {shown(value)}, which is no whole number that an offset can be")
    return int(value)


def _parse_topics(value: Any) -> dict[str, tuple[int, ...]]:
    """A list of names, or partitions by name."""
    if isinstance(value, list) and value and len(set(map(str, value))) == len(value):
        return {_topic(name): () for name in value}
    if not isinstance(value, dict) or not value or len(value) > _TOPICS_MOST:
        raise wrong('is no list of different topics, and no object such as {"topic": [0, 1]}')
    found = {}
    for name, partitions in value.items():
        is_list = isinstance(partitions, list) and partitions and len(set(map(str, partitions))) == len(partitions)
        if not is_list or not all(is_int_to(p, MAX_PARTITION) for p in partitions):
            raise wrong(f"has {shown(partitions)} for {shown(name)}, which is no list of different partitions")
        found[_topic(name)] = tuple(sorted(partitions))
    return found


def _topic(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 249:
        raise wrong(f"names {shown(name)}, which is no topic")
    return name


class ResetData(CommandData):
    unit: Name | None = Field(default=None, description="a unit of the daemon's config; or `cluster` and `group`")
    cluster: Name | None = Field(
        default=None, description="a named cluster of the daemon's config; `main` when left out"
    )
    group: GroupName | None = Field(default=None, description="the consumer group, where no unit is named")
    to: Annotated[Any, PlainValidator(_parse_to), WithJsonSchema(_TO_SCHEMA)] = Field(
        description='`earliest`, `latest`, `current`, `{"offset":n}`, `{"offsets":{"topic":{"0":n}}}`, `{"shift":n}`, a time with zone, or a duration back '
        "from now (`-2h`)"
    )
    topics: (
        Annotated[
            Any,
            PlainValidator(_parse_topics),
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
            dry_run=self.dry_run,
            plan_hash=self.plan_hash,
        )


class RollbackData(CommandData):
    pass


RESET_FORM: Final = verb_form(
    ResetData,
    "new workflow: set the committed offsets of a group that has no members, after noting where it was",
    lambda meta, data: Reset(meta, data.to_core()),
)
ROLLBACK_FORM: Final = verb_form(
    RollbackData, "put back what a workflow changed, where nobody else changed it since", lambda meta, _: Rollback(meta)
)
