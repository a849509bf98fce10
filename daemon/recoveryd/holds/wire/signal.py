"""The data of the signal `hold`: a consumer's acknowledgement. It changes nothing but what the hold's record tells."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from recoveryd.holds.signals import HeldPosition, HoldSignal, Told
from recoveryd.wire.codec import SUBJECT_PATTERN
from recoveryd.wire.fields import GroupName, Offset, Partition, Strict, Text, Topic, at_most
from recoveryd.wire.forms import SignalForm, signal_form

POSITIONS_AT_ONCE: Final = 5_000


class HeldPositionData(Strict):
    topic: Topic
    partition: Partition
    offset: Offset | None = Field(description="the next record it will read; null where it has not read yet")


class HoldSignalData(Strict):
    hold: Annotated[str, Field(pattern=f"^{SUBJECT_PATTERN}$")] = Field(description="the id of the hold that is obeyed")
    group: GroupName = Field(description="the consumer group")
    member: Annotated[Text, Field(min_length=1, max_length=600)] = Field(description="Kafka's id of the member")
    client: Annotated[Text, Field(max_length=255)] = Field(default="", description="its client id, for people")
    state: Literal["draining", "paused", "left"] = Field(
        description="`draining`: no record is taken any more, those taken are finished; `paused`: all is committed; "
        "`left`: the member leaves its group"
    )
    positions: Annotated[
        tuple[HeldPositionData, ...],
        Field(strict=False, fail_fast=True, max_length=POSITIONS_AT_ONCE),
        at_most(POSITIONS_AT_ONCE),
    ] = Field(default=(), description="of each partition of held topics that the member has; with `paused`")

    def to_core(self) -> HoldSignal:
        rows = tuple(HeldPosition(p.topic, p.partition, p.offset) for p in self.positions)
        return HoldSignal(self.hold, self.group, self.member, Told(self.state), self.client, rows)


SIGNALS: Final[Mapping[str, SignalForm]] = {
    "hold": signal_form(HoldSignalData, "how far a member of a consumer group obeys a hold", HoldSignalData.to_core),
}
