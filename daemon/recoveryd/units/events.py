"""What the daemon sees of units while it watches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RetentionSeen:
    """How long the inputs of a unit are kept, in ms; None = for ever. `unknown` are those that could not be asked or do
    not exist.
    """

    unit: str
    kept_ms: Mapping[str, int | None] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
