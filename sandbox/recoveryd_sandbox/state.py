"""The note a broker leaves in its folder: which process it is and where it answers.

By it a later command finds a broker that was left running, and never ends another process that has the same pid now.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.process import ProcessId, end, is_alive

_FILE_NAME = "node.json"


@dataclass(frozen=True)
class NodeState:
    """A broker process that was launched in a folder; it may have ended since."""

    process: ProcessId
    bootstrap: str


def write_state(folder: Path, state: NodeState) -> None:
    """Replace the note in one step, so that nobody reads half of it."""
    text = json.dumps({"pid": state.process.pid, "started": state.process.started, "bootstrap": state.bootstrap})
    draft = folder / f"{_FILE_NAME}.{os.getpid()}"
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(folder / _FILE_NAME)


def forget_state(folder: Path) -> None:
    (folder / _FILE_NAME).unlink(missing_ok=True)


def running_state(folder: Path) -> NodeState | None:
    """The broker that runs on `folder` now. `None` when none was launched, it ended, or the note is unreadable."""
    try:
        note = json.loads((folder / _FILE_NAME).read_text(encoding="utf-8"))
        state = NodeState(ProcessId(int(note["pid"]), str(note["started"])), str(note["bootstrap"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if is_alive(state.process) else None


def end_running(folder: Path, deadline_s: float) -> bool:
    """End the broker that runs on `folder` and delete its note. False when none ran."""
    running = running_state(folder)
    if running is not None:
        end(running.process, deadline_s)
    forget_state(folder)
    return running is not None
