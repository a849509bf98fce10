"""Text of others, such as names of groups and messages of brokers, must not steer the terminal that shows it."""

import re
from typing import Final

# Control characters but new line and tab, what changes the direction of writing, other ends of lines, and halves of a
# surrogate pair, which no stream takes.
_HARMFUL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_LONG: Final = re.compile(r"\S{500,}")  # longer than names, and than most paths
_SHOWN: Final = 200


def bounded(text: str) -> str:
    """With the beginning and the end of what is far too long to be read, as a file that a script took for a word."""
    return _LONG.sub(lambda found: f"{found[0][:_SHOWN]}...{found[0][-2:]}", text)


def harmless(text: str) -> str:
    """With an escape in place of each character that a terminal could obey; JSON stays the same value."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
