"""How old the samples behind a PromQL expression are, as another expression, and how far back it looks from them.

The number of an instant query may be as old as the look back: between two scrapes the server gives the same sample
again, and nothing in its answer says so. What an expression reads are its selectors, and a server knows the time of
their newest sample. Where an expression looks back over a range, its number tells of all of that: it counts as taken
where the range begins, or what a cut changed would be looked for in samples from before it.
"""

import re
from typing import Final

SELECTORS_MOST: Final = 10
_STRING: Final = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
_LABELS: Final = re.compile(
    rf"{_STRING}|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE
)
_WORDS: Final = re.compile(
    rf"""(?:{_STRING})                                  # a text
    |\#[^\n]*                                           # a comment
    |\[[^\]]*\]                                         # a range
    |\d[\w.]*                                           # a number or a duration
    |(?P<selector>[A-Za-z_:][\w:]*\s*(?P<call>\()?(?:\{{(?:[^{{}}"'`]|{_STRING})*\}})?|\{{(?:[^{{}}"'`]|{_STRING})*\}})
    """,
    re.VERBOSE,
)
_DURATION: Final = r"(?:(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+|\d+(?:\.\d+)?)"
_SPANS: Final = re.compile(
    rf"""(?:{_STRING})
    |\#[^\n]*
    |\{{(?:[^{{}}"'`]|{_STRING})*\}}                      # labels
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
_KEYWORDS: Final = frozenset(
    [
        "and",
        "or",
        "unless",
        "bool",
        "offset",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "inf",
        "nan",
        "start",
        "end",
        "atan2",
    ]
)


def age_query(query: str) -> str | None:
    """An expression for the age in seconds of the newest sample that `query` reads, by the server's own clock; None
    where no selector is found in it. The newest of all selectors decides: its value may have changed with any of them.
    """
    found = selectors(query)
    if not found:
        return None
    newest = [f"max(timestamp({selector}))" for selector in found]
    if len(newest) == 1:
        return f"time() - {newest[0]}"
    told = (f'label_replace({one}, "of", "{number}", "", "")' for number, one in enumerate(newest))
    return f"time() - max({' or '.join(told)})"


def selectors(query: str) -> tuple[str, ...]:
    """The selectors of an expression, each once, without ranges; at most `SELECTORS_MOST`."""
    without_labels = _LABELS.sub(lambda found: found[0] if found[0][0] in "\"'`" else " ", query)
    words = (found for found in _WORDS.finditer(without_labels) if found["selector"] and not found["call"])
    texts = (found["selector"].strip() for found in words)
    return tuple(dict.fromkeys(text for text in texts if text.lower() not in _KEYWORDS))[:SELECTORS_MOST]


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
