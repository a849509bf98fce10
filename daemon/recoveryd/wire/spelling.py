"""Positions as people write them on one line (`offset:10`, `offsets:0=5,1=7`), the same in flags, files and records,
and what somebody meant who wrote another tool's word (`beginning`, `end`, `now`, `100`).
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from recoveryd.wire.quantities import parse_whole

# Not `head`, which is either end: that of a queue is where it is read first, that of a log where it is written.
_MEANT: Final[Mapping[str, str]] = (
    dict.fromkeys(("beginning", "begin", "start", "first", "oldest", "smallest", "to-earliest"), "earliest")
    | dict.fromkeys(("end", "now", "last", "newest", "largest", "tail", "to-latest"), "latest")
    | dict.fromkeys(("forever", "endless", "infinite"), "never")
    | dict.fromkeys(("catchup", "catch_up", "live", "zero_lag"), "caught_up")
)
_BEGINNING: Final = "earliest"
_END: Final = "latest"
_ALIKE: Final = 0.55
_SLIP: Final = 0.82  # an end of the log on a mere likeness copies everything or skips it: `rest` is like `earliest`
_FROM_NOW_ON: Final = "-1s"  # a range may begin at the end as it is now, which has no word of its own
_NUMBER: Final = re.compile(r"[0-9]{1,19}", flags=re.ASCII)
_PAIR: Final = re.compile(r"\s*([0-9]{1,10})\s*=\s*([0-9]{1,19})\s*", flags=re.ASCII)


class SpellingProblem(ValueError):  # noqa: N818  (named for what happened)
    """It begins like a position and is none; the message says why."""


def read_position(text: str) -> dict[str, object] | None:
    """`offset:10` and `offsets:0=5,1=7` as the object that a record has; None for what is neither. Raises
    `SpellingProblem`.
    """
    name, colon, rest = text.partition(":")
    if name == "offset" and colon:
        if not _NUMBER.fullmatch(rest.strip()):
            raise SpellingProblem("has no whole number of 0 or more behind offset:")
        return {"offset": int(rest)}
    if name == "offsets" and colon:
        pairs = [_PAIR.fullmatch(pair) for pair in rest.split(",")]
        found = {str(int(pair[1])): int(pair[2]) for pair in pairs if pair is not None}
        if len(found) != len(pairs):
            raise SpellingProblem("is not offsets:PARTITION=OFFSET,... with each partition once")
        return {"offsets": found}
    return None


def meant(text: str, words: Collection[str]) -> str | None:
    """What should stand there instead, of `words` or as an offset; None when nothing is near. It is never the other end
    of the range: who wrote `latest` as a start would copy the whole topic by `earliest`. Nor is it an end of the log
    for what is only somewhat like its word.
    """
    if (offset := parse_whole(text.strip().casefold())) is not None:
        return f"offset:{offset}"
    word = _known(text, words)
    if word in words:
        return word
    if word == _END and _BEGINNING in words:
        return _FROM_NOW_ON
    if word in {_BEGINNING, _END}:
        return None
    return nearest(text, (each for each in words if each not in {_BEGINNING, _END}))


def is_the_beginning(text: str, words: Collection[str]) -> bool:
    """Whether it is a word of any tool for the first record there is, where one of `words` must stand and that is none
    of them: no range can end there.
    """
    return _BEGINNING not in words and _known(text, words) == _BEGINNING


def _known(text: str, words: Collection[str]) -> str | None:
    folded = text.strip().casefold()
    known = _MEANT.get(folded.replace("-", "_"), _MEANT.get(folded))
    return known or _nearest(folded, (*words, _BEGINNING, _END), _SLIP)


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name most like `name`, or None when none is alike."""
    return _nearest(name, valid, _ALIKE)


def _nearest(name: str, valid: Iterable[str], cutoff: float) -> str | None:
    by_fold = {candidate.casefold().replace("-", "_"): candidate for candidate in valid}
    folded = name[:200].casefold().replace("-", "_")
    found = difflib.get_close_matches(folded, by_fold, n=1, cutoff=cutoff)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str, valid: Iterable[str], otherwise: str) -> str:
    """The next step of an error about a name that there is not: the nearest one, `otherwise` where none is alike."""
    close = nearest(name, valid)
    return f"Did you mean {close}?" if close else otherwise
