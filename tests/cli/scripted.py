"""A backend whose answers the test writes, and the runner that calls the CLI with it.

It stands in for Kafka only: what it hands over are documents made by the real wire, and what it is sent are records of
the real codec.
"""

import functools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer import main, testing
from typer.testing import CliRunner, Result

from recoveryd.cli.app import app
from recoveryd.cli.send.backend import OutgoingRecord, Sent
from recoveryd.cli.send.connect import Tools
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from tests.cli.recoveries import make_answer

# The runner makes the whole program anew for each command line, which takes longer than most of them.
testing._get_command = functools.cache(main.get_command)  # type: ignore[attr-defined]

Document = dict[str, Any]
_BEGINS = tuple(
    f"io.recoveryd.command.{verb}.v1" for verb in ("replay", "verify", "watch", "hold", "reset", "schedule")
)


@dataclass
class ScriptedBackend:
    """`answer` makes the answer to a command (None = silence); `becomes`: the statuses after it, in order, each with
    the command's id put in.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    answer: Callable[[Document], Document | None] = make_answer
    becomes: list[Document | BaseException] = field(default_factory=list)
    timeline: list[Document] = field(default_factory=list)
    sent: list[Document] = field(default_factory=list)
    records: list[OutgoingRecord] = field(default_factory=list)
    broker_ms: int | None = None
    closed: bool = False

    def send(self, record: OutgoingRecord) -> Sent:
        command: Document = json.loads(record.value)
        self.records.append(record)
        self.sent.append(command)
        if command["type"] in _BEGINS:
            for document in self.becomes:
                if isinstance(document, dict):
                    document["recovery"] = command["subject"]
                    document["command"] = {"id": command["id"], "source": command["source"], "reason": "r"}
            self._advance()
        return Sent(record, 41 + len(self.sent), self.broker_ms)

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, Document]]:
        assert timeout_s > 0
        for one in sent:
            answer = self.answer(json.loads(one.record.value))
            if answer is not None:
                yield one, answer

    def statuses(self) -> dict[str, Document]:
        return self.documents

    def status(self, recovery: str) -> Document | None:
        return self.documents.get(recovery)

    def follow(self, recovery: str) -> Iterator[Document | None]:
        yield self.documents.get(recovery)
        while True:
            while self.becomes:
                self._advance()
                yield self.documents[recovery]
            time.sleep(0.002)
            yield None

    def follow_all(self) -> Iterator[Document | None]:
        yield from list(self.documents.values())
        while True:
            recovery = self.becomes[0]["recovery"] if self.becomes and isinstance(self.becomes[0], dict) else ""
            self._advance()
            yield self.documents.get(recovery)

    def events(self, recovery: str, since: str | None = None) -> list[Document]:
        return [event for event in self.timeline if event["subject"] == recovery]

    def close(self) -> None:
        self.closed = True

    def _advance(self) -> None:
        if self.becomes:
            following = self.becomes.pop(0)
            if isinstance(following, BaseException):
                raise following
            before = self.documents.get(following["recovery"], {"version": 0})
            self.documents[following["recovery"]] = following | {"version": before["version"] + 1}


def run(
    backend: ScriptedBackend | None,
    *args: str,
    interactive: bool = False,
    typed: str | None = None,
    env: dict[str, str | None] | None = None,
) -> Result:
    """Run one command line. Without a backend, connecting fails as it does without a broker address."""

    def open_backend(_connection: object) -> ScriptedBackend:
        if backend is None:
            raise RecoverydError(Code.BOOTSTRAP_MISSING)
        return backend

    tools = Tools(open_backend=open_backend, is_interactive=lambda: interactive)
    return run_with(tools, *args, typed=typed, env=env)


def run_with(tools: Tools, *args: str, typed: str | None = None, env: dict[str, str | None] | None = None) -> Result:
    """Run one command line in an environment without recoveryd's variables. It keeps its own log quiet, which must not
    outlast it: other tests read theirs.
    """
    clean: dict[str, str | None] = dict.fromkeys(
        ("RECOVERYD_BOOTSTRAP_SERVERS", "RECOVERYD_CONFIG", "RECOVERYD_CONTEXT", "COLUMNS", "NO_COLOR")
    )
    nobodys_home: dict[str, str | None] = {"XDG_CONFIG_HOME": "/nonexistent"}
    log = logging.getLogger("recoveryd")
    level = log.level
    try:
        return CliRunner(env=clean | nobodys_home | (env or {})).invoke(app, args, obj=tools, input=typed)
    finally:
        log.setLevel(level)


def run_on(config: Path, *args: str) -> Result:
    """Run one command line with all that it really talks to, where `config` says. What it prints and ends with is what
    a process of its own would; to start one takes longer than most of them.
    """
    return run_with(Tools(), *args, "--config", str(config))


def refuse_with(code: Code, message: str = "No.") -> Callable[[Document], Document]:
    return lambda command: make_answer(command, "rejected", code, message)


def replay_args(*more: str) -> Sequence[str]:
    """The shortest complete replay."""
    return (
        "replay", "--source", "flights", "--from", "earliest", "--to", "latest", "--target", "flights.v42", "--create",
        "--reason", "wrong delay unit", "--id", "flights-rerun", *more,
    )  # fmt: skip
