"""How far back a PromQL expression looks from the newest samples that it reads.

Where it looks back over a range, its number tells of all of that: it counts as taken where the range begins, or what a
cut changed would be looked for in samples from before it.
"""

import re
from typing import Final

STRING: Final = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
_DURATION: Final = r"(?:(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+|\d+(?:\.\d+)?)"
_SPANS: Final = re.compile(
    rf"""(?:{STRING})
    |\#[^\n]*
    |\{{(?:[^{{}}"'`]|{STRING})*\}}                      # labels
    |@\s*(?:(?:start|end)\s*\(\s*\)|[-+\d.eE]+)         # a time to look at, instead of now
    |(?P<bracket>[()])
    |\[\s*(?P<range>[^\]:]*?)\s*(?:\:[^\]]*)?\]          # a range, or that of a subquery
    |\boffset\s+(?P<offset>-?\s*{_DURATION})
    |(?P<operand>[A-Za-z_:\d][\w:.]*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])?", re.IGNORECASE)
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}


def look_back_ms(query: str) -> int | None:
    """How far before its newest sample begins what the expression tells of: its longest range and what `offset` adds to
    it; of a subquery, with the ranges in it. 0 where it looks at the newest samples only, None where a range is no
    duration.
    """
    open_ms: list[list[int]] = [[0, 0]]  # by open bracket: the longest so far, and that of the last operand
    for found in _SPANS.finditer(query):
        span = found["range"] if found["range"] is not None else found["offset"]
        if span is not None:
            span_ms = _duration_ms(span)
            if span_ms is None:
                return None
            open_ms[-1][1] += span_ms
        elif found["bracket"] == "(":
            open_ms.append([0, 0])
        elif found["bracket"] and len(open_ms) > 1:
            _begin_operand(open_ms[-2], max(open_ms.pop()))
        elif found["operand"]:
            _begin_operand(open_ms[-1], 0)
    return max(0, *(one for both in open_ms for one in both))


def _begin_operand(bracket: list[int], operand_ms: int) -> None:
    bracket[:] = max(bracket), operand_ms


def _duration_ms(text: str) -> int | None:
    """`1m30s`, `90` (seconds) or, of an offset, `-1m`; None if it is none."""
    whole = text.replace(" ", "").lower()
    if re.fullmatch(rf"-?{_DURATION}", whole) is None:
        return None
    parts = (float(number) * _UNITS_MS[unit or "s"] for number, unit in _PART.findall(whole))
    return round(sum(parts)) * (-1 if whole.startswith("-") else 1)
