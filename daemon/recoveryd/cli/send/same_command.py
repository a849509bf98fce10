"""How a command that may have been written is sent once more as the same one, which the daemon carries out once.

It is the same by its id and its content. A command about what is there already is told as a whole line, because the one
that was typed may have named several (`--all`), a name that is gone by then, or a plan that waits no more. One that
begins something is too long for that: told is what belongs behind the line that was typed, the last word of an option
being the one that counts.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from recoveryd.cli.send.backend import OutgoingRecord

_BEGINS: Final = (
    "replay", "verify", "watch", "hold", "reset", "reprocess", "savepoint", "restore_savepoint", "upgrade", "runbook",
)  # fmt: skip  # under an id that is made anew each time, unless it is said
_ASKS: Final = ("replay", "verify")  # for a plan first, of which the daemon knows no command that was sent before
_LINES: Final = {
    "unschedule": "schedule remove", "promote": "runbook promote", "discard": "runbook discard",
    "escalate": "runbook escalate",
}  # fmt: skip


def again(record: OutgoingRecord) -> str:
    """The sentence that says so."""
    command = json.loads(record.value)
    verb, data = str(command["type"]).split(".")[3], command.get("data") or {}
    if data.get("dry_run") is True:
        return "It asks for a plan only, and can be sent again as it is."
    if verb == "release":
        return "Sent again it changes nothing more: what is released stays so."
    name = ["--command-id", record.id]
    if verb in _BEGINS:
        words = [*(["--yes"] if verb in _ASKS else []), *name, "--id", record.key]
        line = f"The same command line with `{shlex.join(words)}`"
    elif verb == "schedule":
        line = f"The same command line with `{shlex.join(name)}`"
    else:
        step = [str(data["step"])] if verb == "ack" else []
        words = ["recoveryctl", *_LINES.get(verb, verb).split(), record.key, *step, *name, *_options(data)]
        line = f"`{shlex.join(words)}`"
    return f"{line} sends the same command, which is carried out once."


def _options(data: Mapping[str, Any]) -> Iterator[str]:
    """What such a command says, as options."""
    for name in ("plan_hash", "note", "reason"):
        if data.get(name) is not None:
            yield from (f"--{name.replace('_', '-')}", str(data[name]))
    if data.get("release"):
        yield "--release"
    for name, value in (data.get("limits") or {}).items():
        yield from (f"--{name.replace('_', '-')}", "none" if value is None else str(value))
