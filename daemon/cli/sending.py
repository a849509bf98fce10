"""Sending one command and hearing its answer.

An accepted or duplicate command is success; a refusal carries the daemon's own code, message and hint, and becomes the exit code. Silence is told apart
from refusal: the command lies on the control topic then, and will be handled.
"""

from daemon.cli.connect import Connection, ControlRecord, Document
from daemon.cli.failure import ExitCode, Failure
from daemon.cli.output import note
from daemon.core.catalogue import Code

ANSWER_TIMEOUT_S = 60.0
_ANSWER_PREFIX = "io.recoveryd.event.command_"
_KNOWN_CODES = frozenset(code.value for code in Code)
_PATIENCE_S = 5.0  # then we say what we wait for


def send(connection: Connection, record: ControlRecord, timeout_s: float | None = None) -> Document:
    """The accepting (or duplicate) answer. Raises `Failure` when refused, or when nobody answers within `timeout_s`."""
    backend = connection.backend
    limit_s = ANSWER_TIMEOUT_S if timeout_s is None else min(timeout_s, ANSWER_TIMEOUT_S)
    offset = backend.send(record).offset
    patience_s = min(_PATIENCE_S, limit_s)
    answer = backend.await_answer(record.id, patience_s)
    if answer is None and limit_s > patience_s:
        note(f"Sent as offset {offset} of {record.topic}; waiting for the daemon's answer.")
        answer = backend.await_answer(record.id, limit_s - patience_s)
    if answer is None:
        raise Failure(
            Code.NO_ANSWER, f"No daemon answered in {limit_s:g} s; the command is offset {offset} of {record.topic}."
        )
    return _judge(answer)


def is_accepted(answer: Document) -> bool:
    """Taken now, and not known from before."""
    return _kind(answer) == "accepted"


def _kind(answer: Document) -> str:
    return str(answer.get("type", "")).removeprefix(_ANSWER_PREFIX).removesuffix(".v1")


def _judge(answer: Document) -> Document:
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
