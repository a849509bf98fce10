"""JSON from unknown senders: strict, bounded, and without any exception other than `JsonProblem`.

Python's own reader accepts NaN, repeated keys, any depth and any size. This one refuses them, so that a control record
has one meaning only.
"""

import hashlib
import json
import re
from typing import Any

from recoveryd.kernel.catalogue import Code

MAX_BYTES = 1024 * 1024
MAX_LEVELS = 32

# A JSON string up to its end, or to the end of the input if it does not end; possessive, so that no input makes it
# slow.
_TEXT = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)', flags=re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


class JsonProblem(ValueError):  # noqa: N818  (named for what happened)
    """The bytes are not JSON as accepted here; `code` is NOT_A_CLOUDEVENT or TOO_LARGE."""

    def __init__(self, message: str, code: Code = Code.NOT_A_CLOUDEVENT) -> None:
        self.code = code
        super().__init__(message)


def parse(raw: bytes) -> Any:
    """The JSON value in `raw`. Raises `JsonProblem` if it is too large, too deep, not UTF-8, not JSON, or ambiguous."""
    if len(raw) > MAX_BYTES:
        raise JsonProblem(f"it has {len(raw)} bytes, at most {MAX_BYTES} are taken", Code.TOO_LARGE)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonProblem(f"it is not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise JsonProblem("it starts with a byte order mark, which JSON does not allow")
    _check_levels(text)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except JsonProblem:
        raise
    except RecursionError:
        raise JsonProblem(f"it is nested deeper than {MAX_LEVELS} levels", Code.TOO_LARGE) from None
    except ValueError as error:
        raise JsonProblem(f"it is not JSON: {str(error).partition(';')[0]}") from None
    if "\\u" in text:
        _check_unicode(value)
    return value


def content_hash(*parts: Any) -> str:
    """sha256 over canonical JSON: equal for equal content, whatever its spacing and order."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise JsonProblem(f"the key {name[:100]!r} is given twice in one object")
        found[name] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise JsonProblem(f"it holds {name}, which is not JSON")


def _check_levels(text: str) -> None:
    # Counting brackets is enough for nearly all records, and much cheaper than finding out which of them are inside
    # strings.
    if text.count("{") + text.count("[") <= MAX_LEVELS:
        return
    level = 0
    for bracket in _BRACKET.findall(_TEXT.sub("", text)):
        level += 1 if bracket in "{[" else -1
        if level > MAX_LEVELS:
            raise JsonProblem(f"it is nested deeper than {MAX_LEVELS} levels", Code.TOO_LARGE)


def _check_unicode(value: Any) -> None:
    """Refuse half a surrogate pair: JSON can escape it, but it cannot be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonProblem("a text holds half of a surrogate pair") from None
