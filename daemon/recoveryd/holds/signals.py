"""What consumers tell of a hold on the control topic: that they have heard of it, and where they stand still."""

from dataclasses import dataclass
from enum import StrEnum


class Told(StrEnum):
    """What a member of a consumer group says of itself."""

    DRAINING = "draining"
    PAUSED = "paused"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class HeldPosition:
    """The next record that the member will read; None where it has not read yet and nothing is committed."""

    topic: str
    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class HoldSignal:
    """`member` is Kafka's id of the member, `client` its client id."""

    hold: str
    group: str
    member: str
    state: Told
    client: str = ""
    positions: tuple[HeldPosition, ...] = ()
