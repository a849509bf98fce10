"""Sending one command and hearing its answer; `Sending` and `Staying` are the options of the verbs that do so.

An accepted or duplicate command is success; a refusal carries the daemon's own code, message and hint, and becomes the
exit code. Silence is told apart from refusal: the command lies on the control topic then, and will be handled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import CommandId, Expires, Format, Output, PrintRecord, Timeout, Wait, WideOutput
from recoveryd.cli.render.following import following
from recoveryd.cli.render.output import note, stderr_console
from recoveryd.cli.send.backend import OutgoingRecord
from recoveryd.cli.send.command import make_record, print_record
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.posting import Posting, being_taken, fates, hear, telling
from recoveryd.cli.send.values import parse_duration_s
from recoveryd.cli.send.waiting import wait_for
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code

ANSWER_TIMEOUT_S = 60.0
_ANSWER_PREFIX = "io.recoveryd.event.command_"
_KNOWN_CODES = frozenset(code.value for code in Code)
_STATUS_S = 15.0  # from the answer to the status, which one transaction wrote, but readers see one after the other


@dataclass(frozen=True)
class Sending:
    """How a command is sent. A duration that is none is refused at once, also where nothing is sent."""

    print_only: PrintRecord = False
    expires: Expires = None
    command_id: CommandId = None
    output: Output = Format.TABLE

    def __post_init__(self) -> None:
        _ = self.timeout_s, self._expires_s

    @property
    def timeout_s(self) -> float | None:
        return None

    @property
    def _expires_s(self) -> float | None:
        return None if self.expires is None else parse_duration_s(self.expires, "--expires")

    def record(self, connection: Connection, verb: str, recovery: str, data: Mapping[str, object]) -> OutgoingRecord:
        """The checked record."""
        return make_record(
            verb, recovery, data, connection.names, command_id=self.command_id, expires_s=self._expires_s
        )

    def make(
        self, connection: Connection, verb: str, recovery: str, data: Mapping[str, object]
    ) -> OutgoingRecord | None:
        """The checked record to send; None when it was only to be printed, which is done then."""
        record = self.record(connection, verb, recovery, data)
        if not self.print_only:
            return record
        print_record(record, self.output, connection.brokers)
        return None


@dataclass(frozen=True)
class Staying(Sending):
    """The same for a verb that can stay until what it asked for is there."""

    output: WideOutput = Format.TABLE
    wait: Wait = False
    timeout: Timeout = None

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else parse_duration_s(self.timeout, "--timeout")

    def stay(
        self, connection: Connection, recovery: str, is_reached: Callable[[Document], bool], born_of: str = ""
    ) -> Document:
        """The status in which `is_reached`; until then progress is shown on stderr."""
        with being_taken(recovery), following(stderr_console()) as on_change:
            return wait_for(
                connection.backend,
                recovery,
                is_reached,
                timeout_s=self.timeout_s,
                on_change=on_change,
                command_id=born_of,
            )


def begin(connection: Connection, record: OutgoingRecord, timeout_s: float | None) -> str:
    """Send it and give the command whose status is meant from now on: ours, or any ("") when this command was known
    before.
    """
    return record.id if _kind(send(connection, record, timeout_s)) == "accepted" else ""


def quiet_status(
    connection: Connection,
    recovery: str,
    born_of: str,
    is_reached: Callable[[Document], bool] = lambda _: True,
    timeout_s: float = _STATUS_S,
) -> Document:
    """The status in which `is_reached`, the first one when not given; progress is not shown."""
    with being_taken(recovery):
        return wait_for(
            connection.backend, recovery, is_reached, timeout_s=timeout_s, on_change=lambda _: None, command_id=born_of
        )


def send(connection: Connection, record: OutgoingRecord, timeout_s: float | None = None) -> Document:
    """The accepting (or duplicate) answer. Raises `Failure` when refused, or when nobody answers within `timeout_s`."""
    backend, limit_s = connection.backend, answer_limit_s(timeout_s)
    posting = Posting(record)
    with telling(posting):
        posting.write(backend)
        next(hear(backend, [posting], limit_s), None)
    if posting.answer is None:
        message = f"No daemon answered in {limit_s:g} s; the command is {posting.place}."
        raise Failure(Code.NO_ANSWER, message, facts=fates([posting]))
    return judge(posting.answer)


def answer_limit_s(timeout_s: float | None) -> float:
    """How long an answer is awaited of somebody who waits for `timeout_s` in all, or without end."""
    return ANSWER_TIMEOUT_S if timeout_s is None else min(timeout_s, ANSWER_TIMEOUT_S)


def _kind(answer: Document) -> str:
    return str(answer.get("type", "")).removeprefix(_ANSWER_PREFIX).removesuffix(".v1")


def judge(answer: Document) -> Document:
    """Print what was accepted, raise what was refused."""
    data = answer.get("data") or {}
    message, hint = str(data.get("message") or ""), str(data.get("hint") or "")
    kind = _kind(answer)
    if kind in {"accepted", "duplicate"}:
        note(f"{kind}: {message}" if message else kind)
        return answer
    code = str(data.get("code") or "")
    if code in _KNOWN_CODES:
        raise Failure(Code(code), message, hint, otherwise=ExitCode.REJECTED)
    # A daemon newer than this program: its text is better than anything of ours.
    raise Failure(Code.UNEXPECTED, f"{code} {message}".strip(), hint, otherwise=ExitCode.REJECTED)
