"""Numbers as evidence and records may hold them: JSON has neither NaN nor infinity."""

import math


def finite(value: float | None, digits: int = 3) -> float | None:
    """The number rounded, or None for what JSON cannot say."""
    return round(value, digits) if value is not None and math.isfinite(value) else None
