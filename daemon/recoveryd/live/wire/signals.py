"""The data of each signal: observations of lag and health by other programs, on the control topic. They can slow or
stop a recovery, never start one.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from recoveryd.live.signals import HealthSignal, LagSignal, SignalledPartition
from recoveryd.wire.fields import (
    MAX_PARTITIONS,
    GroupName,
    Name,
    Offset,
    Partition,
    SampledAt,
    Strict,
    Text,
    Topic,
    at_most,
)
from recoveryd.wire.forms import SignalForm, signal_form
from recoveryd.wire.problems import wrong


class LagPartitionData(Strict):
    partition: Partition
    committed: Offset | None = Field(default=None, description="the group's committed offset; null when it has none")
    end: Offset | None = Field(default=None, description="the log end; null when not known")
    sampled_at: SampledAt = Field(
        description="when the offsets were asked for; at most 5 minutes ahead of the broker's time"
    )


class LagData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    group: GroupName
    topic: Topic
    partitions: Annotated[
        tuple[LagPartitionData, ...],
        Field(strict=False, fail_fast=True, min_length=1, max_length=MAX_PARTITIONS),
        at_most(MAX_PARTITIONS),
    ]

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if len({sample.partition for sample in self.partitions}) != len(self.partitions):
            raise wrong("names a partition twice in partitions")
        return self

    def to_core(self) -> LagSignal:
        samples = (SignalledPartition(p.partition, p.committed, p.end, p.sampled_at) for p in self.partitions)
        return LagSignal(self.cluster, self.group, self.topic, tuple(samples))


class HealthData(Strict):
    cluster: Name = Field(default="main", description="a named cluster of the daemon's config")
    name: Name = Field(description="for instance `produce_latency_p99`, or the name of an alert")
    value: Annotated[float, Field(ge=0)] | None = Field(default=None, description="null when only the status is known")
    unit: Annotated[Text, Field(max_length=32)] = Field(default="", description="for instance `s`")
    status: Literal["ok", "degraded", "critical", "unknown"] = Field(
        description="`critical` presses like a value over the SLO, also without a value; `unknown` is no measurement, "
        "whatever the value"
    )
    sampled_at: SampledAt = Field(
        description="when it was measured, of an interval when that began; at most 5 minutes ahead of the broker's time"
    )

    def to_core(self) -> HealthSignal:
        return HealthSignal(self.cluster, self.name, self.value, self.unit, self.status, self.sampled_at)


FORMS: Final[Mapping[str, SignalForm]] = {
    "lag": signal_form(LagData, "how far a consumer group is behind", LagData.to_core),
    "health": signal_form(HealthData, "a measured value or an alert about a cluster", HealthData.to_core),
}
