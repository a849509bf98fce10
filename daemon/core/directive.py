"""What lanes are told: the one value that crosses from the core to the jobs while an application runs."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Directive:
    """What the lanes of a recovery must do now. Rates None = unlimited. `shares` maps lane number to its part (0..1) of the rate.

    A directive is a lease: it ends `lease_ttl_ms` after a lane got it, on the lane's own monotonic clock; each renewal has a higher `sequence`.
    """

    recovery: str
    attempt: int
    sequence: int
    wanted: str
    max_bytes_per_s: float | None
    max_records_per_s: float | None
    floor_bytes_per_s: float
    lease_ttl_ms: int
    shares: Mapping[int, float]
    why: str
