"""The data of the commands `hold` and `release`."""

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from recoveryd.holds.spec import HoldSpec, Release, StartHold
from recoveryd.wire.fields import Deadline, Name, Topic, at_most
from recoveryd.wire.forms import CommandData, VerbForm, verb_form
from recoveryd.wire.problems import wrong

MAX_TOPICS: Final = 100
_Topics = Annotated[
    tuple[Topic, ...],
    Field(min_length=1, max_length=MAX_TOPICS, strict=False, fail_fast=True),
    at_most(MAX_TOPICS),
]


def _check_once(topics: tuple[str, ...]) -> None:
    if len(set(topics)) != len(topics):
        raise wrong("names a topic twice in topics")


class HoldData(CommandData):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    topics: _Topics = Field(description="no recovery may write or reset there meanwhile; running ones pause, drained")
    reads: bool = Field(
        default=False,
        description="recoveries may not copy from there either, because the topics are being corrected",
    )
    ttl: Deadline | None = Field(
        default=None, description="release by itself after this duration, or at this time (with zone)"
    )

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        _check_once(self.topics)
        return self

    def to_core(self) -> HoldSpec:
        return HoldSpec(self.cluster, self.topics, self.reads, self.ttl)


class ReleaseData(CommandData):
    cluster: Name = Field(default="main", description="where the topics are, if the subject is no hold")
    topics: _Topics | None = Field(
        default=None,
        description="let go of these; when left out, of all that the hold with the id of the subject has",
    )

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        _check_once(self.topics or ())
        return self


FORMS: Final[Mapping[str, VerbForm]] = {
    StartHold.verb: verb_form(
        HoldData, "new hold: nothing may be written to or reset in these topics", lambda m, d: StartHold(m, d.to_core())
    ),
    Release.verb: verb_form(
        ReleaseData,
        "ends the hold, or lets go of what the sender holds of the topics",
        lambda meta, data: Release(meta, data.cluster, data.topics),
    ),
}
