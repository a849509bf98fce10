"""Numbers for evidence and records, as JSON can hold them: it has neither NaN nor infinity."""

import math


def finite(value: float | None, digits: int = 3) -> float | None:
    """The rounded number, or None for one that JSON does not have."""
    return round(value, digits) if value is not None and math.isfinite(value) else None
