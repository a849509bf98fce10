"""Regular expressions of others, tried only where it is known beforehand that it does not take long.

Python's engine follows one way through a pattern after the other, keeps every thread of the process waiting meanwhile,
and has no deadline: `([a-z]+[.-]?)+x` takes years for a name of sixty letters that does not fit. So the ways are
counted before: the choices of what stands side by side multiply, those of alternatives add up. What has too many, or
anything whose ways are not counted here, is not tried.
"""

import re
import warnings
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]  # the only one who knows how Python reads a pattern
from typing import Any, Final

_CHARS_MOST: Final = 1_000
_WAYS_MOST: Final = 250_000  # some hundredths of a second
_TOO_MANY: Final = _WAYS_MOST + 1
_ONE_WAY: Final = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY", "AT"})


def fits(pattern: str, text: str) -> bool | None:
    """Whether it fits the whole text; None where it was not tried, as one that Python cannot read, or reads in another
    way than Java.
    """
    if len(pattern) > _CHARS_MOST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of what means sets of characters to Java: `[a-z&&[^b]]`
            if _ways(_parser.parse(pattern), len(text)) > _WAYS_MOST:
                return None
            return re.fullmatch(pattern, text) is not None
    except (re.error, FutureWarning, OverflowError, RecursionError):
        return None


def _ways(items: Iterable[tuple[Any, Any]], chars: int) -> int:
    ways = 1
    for what, value in items:
        ways = min(ways * _ways_of(what.name, value, chars), _TOO_MANY)
    return ways


def _ways_of(what: str, value: Any, chars: int) -> int:
    if what in _ONE_WAY:
        return 1
    match what, value:
        case "SUBPATTERN", (_, _, _, inner):
            return _ways(inner, chars)
        case "BRANCH", (_, branches):
            return sum(_ways(branch, chars) for branch in branches)
        case "ASSERT" | "ASSERT_NOT", (_, inner):
            return _ways(inner, chars)
        case "MAX_REPEAT" | "MIN_REPEAT", (least, most, inner):
            return _ways_of_repeat(least, most, inner, chars)
    return _TOO_MANY


def _ways_of_repeat(least: int, most: int, inner: Any, chars: int) -> int:
    """Nothing is repeated more often than there are characters, but for what needs none and has to come so often."""
    if least > 1 and inner.getwidth()[0] == 0:
        return _TOO_MANY
    each, ways = _ways(inner, chars), 0
    for count in range(min(least, chars), min(most, chars) + 1):
        ways += each**count
        if ways > _WAYS_MOST:
            return _TOO_MANY
    return ways
