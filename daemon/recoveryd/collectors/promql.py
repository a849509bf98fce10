"""How old the samples behind a PromQL expression are, as another expression.

The number of an instant query may be as old as the look back: between two scrapes the server gives the same sample
again, and nothing in its answer says so. What an expression reads are its selectors, and a server knows the time of
their newest sample.
"""

import re
from typing import Final

from recoveryd.live.look_back import STRING

SELECTORS_MOST: Final = 10
_LABELS: Final = re.compile(
    rf"{STRING}|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE
)
_WORDS: Final = re.compile(
    rf"""(?:{STRING})                                  # a text
    |\#[^\n]*                                           # a comment
    |\[[^\]]*\]                                         # a range
    |\d[\w.]*                                           # a number or a duration
    |(?P<selector>[A-Za-z_:][\w:]*\s*(?P<call>\()?(?:\{{(?:[^{{}}"'`]|{STRING})*\}})?|\{{(?:[^{{}}"'`]|{STRING})*\}})
    """,
    re.VERBOSE,
)
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
