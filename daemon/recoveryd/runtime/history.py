"""A file of everything that the core was told and when, so that each decision can be taken again by the code that took
it: `recoveryctl history`.

One JSON object per line: `params` when a daemon starts, `restored` when it begins to lead, `event` for each event. It
holds commands whole, so only the daemon's user may read one that it owns, and nothing of the config but what the rules
are given, so no secret. Writing never disturbs the daemon: on the first trouble, and at its bound, the file just ends.
Where that was in the middle of a line, the next daemon goes on in a new one.
"""

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import structlog

from recoveryd.kernel.decide import Decider
from recoveryd.kernel.decision import Decision, Noun
from recoveryd.kernel.events import Event
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.params import CapabilityParams, params_beside
from recoveryd.recovery.params import Params
from recoveryd.runtime.loop import Core
from recoveryd.runtime.tagged import from_tagged, to_tagged

log = structlog.stdlib.get_logger(__name__)

FORMAT = 1
MakeDecider = Callable[[CapabilityParams], Decider]


class RecordedCore:
    """Decides as `Decider` does, and writes what it decided on to `path`, up to the line with which it has
    `most_bytes`.
    """

    def __init__(self, core: Core, params: CapabilityParams, path: Path, most_bytes: int) -> None:
        self._core = core
        self._most_bytes = most_bytes
        self._file: TextIO | None = None
        try:
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
            _keep_from_others(self._file.fileno())
            if self._file.tell() >= most_bytes:
                self._end(f"it has {most_bytes:,} bytes")
            elif _is_torn(path):
                self._file.write("\n")
        except OSError as error:
            log.warning("no history is written", path=str(path), error=str(error))
            self.close()
        self._write({"format": FORMAT, "params": params})

    def decide(self, state: CoreState, event: Event, now_ms: int) -> Decision:
        self._write({"at_ms": now_ms, "event": event})
        return self._core.decide(state, event, now_ms)

    def restore(self, daemon: DaemonRecord, nouns: Mapping[str, Noun], sequences: Mapping[str, int]) -> CoreState:
        self._write({"restored": (daemon, dict(nouns), dict(sequences))})
        return self._core.restore(daemon, nouns, sequences)

    def known(self, state: CoreState) -> Mapping[str, Noun]:
        return self._core.known(state)

    def is_active(self, state: CoreState) -> bool:
        return self._core.is_active(state)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # what a full disk did not take before, it does not take now
                file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(to_tagged(line), separators=(",", ":")) + "\n")
            self._file.flush()
            is_full = self._file.tell() >= self._most_bytes
        except (OSError, TypeError, ValueError, RecursionError) as error:
            self._end(f"{type(error).__name__}: {error}")
        else:
            if is_full:
                self._end(f"it has {self._most_bytes:,} bytes")

    def _end(self, why: str) -> None:
        log.warning("the history ends here", why=why)
        self.close()


def _keep_from_others(descriptor: int) -> None:
    """One that an earlier release made is open to everybody. What is no file, or of somebody else, is left alone."""
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)


def _is_torn(path: Path) -> bool:
    """Whether the last line has no end."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


@dataclass(frozen=True, slots=True)
class Taken:
    """One decision, taken again. `event` is None where a daemon begins to lead. `bug`: what `decide` raised, which
    changes nothing, as in the daemon.
    """

    at_ms: int
    event: Event | None
    decision: Decision
    bug: Exception | None = None


def take_again(lines: Iterator[str], make_decider: MakeDecider) -> Iterator[Taken]:
    """Every decision of a history, in order. Raises ValueError with the line that cannot be read, unless a daemon may
    have ended in the middle of it.
    """
    core: Decider | None = None
    state, at_ms = CoreState(), 0
    torn: ValueError | None = None
    for number, text in enumerate(lines, 1):
        try:
            data = json.loads(text)
        except ValueError as error:
            unreadable = ValueError(f"line {number}: {error}")
            if core is None or torn is not None:
                raise torn or unreadable from error
            torn = unreadable
            continue
        if torn is not None and not (isinstance(data, dict) and "params" in data):
            raise torn
        torn = None
        try:
            line = from_tagged(data)
            if "params" in line:
                core = make_decider(_params(line))
                continue
            if core is None:
                raise ValueError("a history begins with the parameters of a daemon")  # noqa: TRY301
            if "restored" in line:
                decision = Decision(core.restore(*line["restored"]), reason="a daemon begins to lead")
                event, bug = None, None
            else:
                at_ms, event = line["at_ms"], line["event"]
                decision, bug = _decided(core, state, event, at_ms)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"line {number}: {error}") from error
        state = decision.state
        yield Taken(at_ms, event, decision, bug)


def _params(line: Mapping[str, Any]) -> CapabilityParams:
    """Earlier releases wrote those of recoveries, and the names of webhooks beside them."""
    found = line["params"]
    return params_beside(found, frozenset(line["webhooks"])) if isinstance(found, Params) else found


def _decided(core: Decider, state: CoreState, event: Event, at_ms: int) -> tuple[Decision, Exception | None]:
    try:
        return core.decide(state, event, at_ms), None
    except Exception as bug:  # noqa: BLE001  (whatever the rules raise is what one looks for)
        return Decision(state, reason=f"recoveryd could not decide on this: {type(bug).__name__}: {bug}"), bug
