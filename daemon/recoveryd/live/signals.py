"""What other programs may report about live traffic on the control topic."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignalledPartition:
    partition: int
    committed: int | None
    end: int | None
    sampled_at_ms: int


@dataclass(frozen=True, slots=True)
class LagSignal:
    cluster: str
    group: str
    topic: str
    partitions: tuple[SignalledPartition, ...]


@dataclass(frozen=True, slots=True)
class HealthSignal:
    cluster: str
    name: str
    value: float | None
    unit: str
    status: str  # ok | degraded | critical | unknown
    sampled_at_ms: int
