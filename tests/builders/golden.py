"""What earlier releases left on their topics (`tests/golden`)."""

import base64
import json
from functools import cache
from pathlib import Path

from recoveryd.adapters.memory import MemoryRecord

FILES = ("release-0.1.0", "format-1")
_FOLDER = Path(__file__).parent.parent / "golden"


@cache
def records(file: str, topic: str) -> tuple[MemoryRecord, ...]:
    """The records of `status`, `control`, `directives`, `receipts` or `events` in `file`, in order."""
    lines = (json.loads(line) for line in (_FOLDER / f"{file}.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(
        MemoryRecord(
            _bytes(line["key"]),
            _bytes(line["value"]),
            line["timestamp"],
            tuple(
                (name, None if value is None else base64.b64decode(value)) for name, value in line.get("headers", ())
            ),
        )
        for line in lines
        if line["topic"] == topic
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
