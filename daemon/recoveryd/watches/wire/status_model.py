"""The status record of a watch as a model: for its JSON Schema, the docs and the tests, not for reading or writing records."""

from typing import Annotated, Any, Literal

from pydantic import Field

from recoveryd.recovery.wire.status_model import CommandPart, Natural, Part, StopPart, Time
from recoveryd.watches.wire.until import ThenField

_UNTIL = Field(
    description='"caught_up", {"offsets": {TOPIC: {PARTITION: n}}} or {"deadline": time}',
    json_schema_extra={"anyOf": [{"const": "caught_up"}, {"type": "object"}]},
)


class WatchedPartitionPart(Part):
    topic: str
    partition: Natural
    position: int | None = Field(description="committed by the group; null while not known")
    end: int | None = Field(description="high watermark; null while not known")
    wanted: int | None = Field(description="the offset waited for; null for `caught_up`")
    verdict: str = Field(description="lag verdict, such as catching_up or unknown")
    reached: bool


class WatchProgressPart(Part):
    done: Natural = Field(description="partitions that are where they are wanted")
    planned: Natural = Field(description="partitions that have to be")
    lag_records: int | None = Field(description="of all partitions; null while any is not known")
    lag_seconds: float | None = Field(description="of the worst partition; null while any is not known")
    coverage: float = Field(description="share of the partitions whose position and end are known and fresh")
    evaluations: Natural = Field(description="looks in a row at zero lag")
    partitions: list[WatchedPartitionPart] = Field(description="not there yet, worst first, at most 50")


class DeliveryPart(Part):
    webhook: str
    id: str = Field(description="idempotency key, sent as X-Recoveryd-Delivery")
    state: Literal["pending", "delivered", "failed"]
    wanted: Time
    ended: Time | None
    status: int | None = Field(description="HTTP status of the last try; null = nobody answered")
    attempts: Natural
    message: str


class WatchPart(Part):
    cluster: str
    group: str
    topics: list[str]
    until: Annotated[Any, _UNTIL]
    then: ThenField
    deadline: Time | None
    tolerance_records: Natural
    progress: WatchProgressPart
    delivery: DeliveryPart | None = Field(description="the call of the webhook, once it is wanted")


class WatchStatusRecord(Part):
    """Value on the status topic of a record with `kind` watch (key = its id), and `GET /api/v1/recoveries/{id}`."""

    recovery: str = Field(description="the watch's id")
    kind: Literal["watch"]
    state: Literal["running", "completed", "stopped", "failed"]
    why: str = Field(description="one sentence, always current")
    version: Natural
    created: Time
    updated: Time
    command: CommandPart
    error_code: str | None = Field(description="of the catalogue, when it failed")
    stop: StopPart | None = Field(description="why it ended or calls its webhook")
    watch: WatchPart
    internal: dict[str, Any] = Field(description="for the daemon only; may change at any time")
