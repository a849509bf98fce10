"""The data of the command `watch`."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from recoveryd.kernel.catalogue import Code
from recoveryd.watches.spec import StartWatch, Until, UntilOffsets, UntilTime, WatchSpec
from recoveryd.watches.wire.until import MAX_TOPICS, ONLY_TOPIC, ThenField, UntilField
from recoveryd.wire.fields import Deadline, GroupName, Name, Topic, at_most
from recoveryd.wire.forms import CommandData, verb_form
from recoveryd.wire.problems import wrong

_TOLERANCE_MOST: Final = 1_000_000_000


class WatchData(CommandData):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    group: GroupName = Field(description="the consumer group to watch; it is only looked at, never changed")
    topic: Topic | None = Field(default=None, description="the topic it reads; several stand in `topics`")
    topics: (
        Annotated[
            tuple[Topic, ...],
            Field(min_length=1, max_length=MAX_TOPICS, strict=False, fail_fast=True),
            at_most(MAX_TOPICS),
        ]
        | None
    ) = Field(default=None, description="topics it reads, instead of `topic`")
    until: UntilField = Field(
        description='`caught_up` (zero lag that stays), `{"offsets":{"0":n}}` or '
        '`{"offsets":{TOPIC:{"0":n}}}` (committed '
        'once), `{"deadline":...}` (a time has come, whatever the group did)'
    )
    then: ThenField = Field(
        default="notify",
        validate_default=True,
        description=(
            '`notify` (events and status record only), `{"webhook":NAME}`, a name under `webhooks:` of the config, or '
            '`{"stop":UNIT}`: the daemon stops the application of this unit'
        ),
    )
    deadline: Deadline | None = Field(
        default=None, description="give up at this time (with zone), or after this duration from now: `failed`"
    )
    tolerance_records: Annotated[int, Field(ge=0, le=_TOLERANCE_MOST)] = Field(
        default=0,
        description=(
            "lag per partition that counts as zero for `caught_up`; 1 where the topic ends in transaction markers"
        ),
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.topic is None) == (self.topics is None):
            raise wrong("needs topic or topics, and not both", "Name the topic that the group reads.")
        if self.topics is not None and len(set(self.topics)) != len(self.topics):
            raise wrong("names a topic twice in topics")
        if isinstance(self.until, UntilOffsets):
            _check_topics(self.until, self.all_topics)
        if isinstance(self.until, UntilTime) and self.deadline is not None:
            raise wrong("has a deadline in until and another one", "Leave one of them out.")
        return self

    @property
    def all_topics(self) -> tuple[str, ...]:
        return (self.topic,) if self.topic is not None else tuple(self.topics or ())

    def to_core(self) -> WatchSpec:
        return WatchSpec(
            cluster=self.cluster,
            group=self.group,
            topics=self.all_topics,
            until=_with_topics(self.until, self.all_topics),
            then=self.then,
            deadline_ms=self.deadline,
            tolerance_records=self.tolerance_records,
        )


def _check_topics(until: UntilOffsets, topics: tuple[str, ...]) -> None:
    named = set(until.offsets)
    if named == {ONLY_TOPIC}:
        if len(topics) != 1:
            raise wrong("has offsets without a topic, but several topics", 'Write {"offsets": {TOPIC: {"0": n}}}.')
    elif unknown := sorted(named - set(topics)):
        raise wrong(f"has offsets of {unknown[0]}, which is not among its topics")
    elif left := sorted(set(topics) - named):
        raise wrong(
            f"has no offsets of {left[0]}", "Give offsets of each topic, or leave it out.", code=Code.MISSING_FIELD
        )


def _with_topics(until: Until, topics: tuple[str, ...]) -> Until:
    if isinstance(until, UntilOffsets) and set(until.offsets) == {ONLY_TOPIC}:
        return UntilOffsets({topics[0]: until.offsets[ONLY_TOPIC]})
    return until


FORM: Final = verb_form(
    WatchData,
    "new watch: tell when a consumer group of others is where it is wanted",
    lambda meta, data: StartWatch(meta, data.to_core()),
)
