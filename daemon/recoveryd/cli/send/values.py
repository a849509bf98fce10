"""Text of the command line to values of a control record: positions, sizes, durations, headers, partitions.

Pure functions. They know how people write things on a command line (`offset:123`, `10MB`, `0,2-4`) and give back what
the record's data holds; the record as a whole is judged by `recoveryd.wire` as if it came from anywhere else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from recoveryd.cli.failure import Failure, invalid, usage
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import TimeProblem, parse_duration_ms
from recoveryd.wire.quantities import SizeProblem, parse_bytes, parse_whole
from recoveryd.wire.spelling import SpellingProblem, is_the_beginning, meant, read_position

Position = str | dict[str, object]

FROM_WORDS = ("earliest",)
PINNED_WORDS = ("latest",)
ONCE = "Say it once."
TO_WORDS = ("latest", "caught_up", "never")
_FORMS = "offset:N, offsets:P=N,P=N, a time like 2026-11-21T06:00:00Z or a duration back from now like -2h"

_LOOKS_LIKE_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LOOKS_LIKE_DURATION = re.compile(r"-(?:P|[0-9])", re.IGNORECASE)


def parse_position(text: str, flag: str, words: Sequence[str]) -> Position:
    """`--from` or `--to` as the record's data has it. Times and durations pass through as text; `recoveryd.wire` reads
    them.
    """
    text = text.strip()
    if text in words:
        return text
    try:
        spelled = read_position(text)
    except SpellingProblem as problem:
        raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` {problem}.", f"Use {_FORMS}.") from None
    if spelled is not None:
        return spelled
    if _LOOKS_LIKE_TIME.match(text) or _LOOKS_LIKE_DURATION.match(text):
        return text
    if is_the_beginning(text, words):
        told = f"{flag} `{text}` is the beginning, and no range can end there."
        raise invalid(Code.INVALID_VALUE, told, f"Use {', '.join(words)}, {_FORMS}; --from says where it begins.")
    near = meant(text, words)
    guess = f" Did you mean `{near}`?" if near else ""
    raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` is no position.{guess}", f"Use {', '.join(words)}, {_FORMS}.")


def require_text(given: Mapping[str, str | None]) -> None:
    """By flag. Raises `Failure` for one without a value, as where a variable of a script is not set."""
    for flag, text in given.items():
        if text is not None and not text.strip():
            raise usage(f"{flag} is empty.", "Give it a value, or leave it out.")


def parse_size(text: str, flag: str) -> int:
    """`10MB` = 10,000,000, `10MiB` = 10,485,760; `/s` may follow; a bare number is bytes."""
    try:
        size = parse_bytes(text.strip().removesuffix("/s"))
    except SizeProblem as problem:
        raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` {problem}.", "Write it like 10MB or 32MiB.") from None
    if size == 0:
        raise invalid(Code.INVALID_VALUE, f"{flag} must be more than 0.", "`recoveryctl pause` holds a recovery.")
    return size


def parse_count(text: str, flag: str) -> int:
    """A whole number above 0; `1_000_000` and `1,000,000` are fine too."""
    count = parse_whole(text.strip())
    if not count:
        hint = "Write it like 1000000 or 1,000,000."
        raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` is no whole number above 0.", hint)
    return count


def parse_duration_s(text: str, flag: str) -> float:
    """`90s`, `10m`, `1h30m`, `PT90S` in seconds."""
    try:
        return parse_duration_ms(text.strip()) / 1000
    except TimeProblem as problem:
        raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` {problem}.", "Write it like 90s, 10m or 1h30m.") from None


def parse_partitions(text: str) -> list[int]:
    """`0,2-4` = [0, 2, 3, 4]."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        start = _whole_number(first, "--partitions")
        stop = _whole_number(last, "--partitions") if dash else start
        if stop < start or stop - start > 100_000:
            raise invalid(Code.INVALID_VALUE, f"--partitions `{part}` is no range.", "Write it like 0,1 or 0-3.")
        numbers.extend(range(start, stop + 1))
    if len(set(numbers)) != len(numbers):
        raise invalid(Code.INVALID_VALUE, f"--partitions `{text}` names a partition twice.", "Name each one once.")
    return numbers


def parse_pairs(
    texts: Iterable[str] | None, flag: str, form: str, hint: str = "", once: str = ONCE, *, at_last: bool = False
) -> dict[str, str]:
    """`NAME=VALUE` options that are given once for each name. `form`: how such a one is written; `hint` and `once`: the
    next step for one that is written otherwise, and for a name that is given twice. `at_last`: the last `=` parts the
    two, else the first. Raises `Failure`.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, is_pair, value = text.rpartition("=") if at_last else text.partition("=")
        if not (is_pair and name and value):
            raise usage(f"{flag} {text} is not {form}.", hint or f"Write {flag} {form}, once for each.")
        if name in found:
            raise said_twice(flag, name, once)
        found[name] = value
    return found


def said_twice(flag: str, what: str, hint: str = ONCE) -> Failure:
    """Of two values for one thing nobody knows which is meant."""
    return usage(f"{flag} says {what} more than once.", hint)


def parse_headers(pairs: Iterable[str]) -> dict[str, str]:
    """`k=v` pairs of `--add-header`; the value may hold `=` and may be empty."""
    headers: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise invalid(Code.INVALID_VALUE, f"--add-header `{pair}` is no header.", "Write it as name=value.")
        if name in headers:
            raise invalid(Code.INVALID_VALUE, f"--add-header names `{name}` twice.", "Give each name one value.")
        headers[name] = value
    return headers


def _whole_number(text: str, flag: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text.strip()):
        raise _bad_number(text, flag)
    return int(text)


def _bad_number(text: str, flag: str) -> Failure:
    return invalid(Code.INVALID_VALUE, f"{flag}: `{text}` is no whole number of 0 or more.", f"Use {_FORMS}.")
