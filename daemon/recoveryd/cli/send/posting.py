"""Commands on their way: written, then answered; and what is known of each where that ends early.

From the moment in which the client has a record until the broker says where it lies, nobody knows whether it is there.
Sent again as another command it could be carried out twice, so what is told is how to send the same one: the daemon
acts once on one id.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recoveryd.cli.failure import Failure
from recoveryd.cli.render.output import detail, note, tell_detached
from recoveryd.cli.send.backend import Backend, OutgoingRecord, Sent
from recoveryd.cli.send.same_command import again
from recoveryd.cli.send.waiting import Detached
from recoveryd.cli.status import Document
from recoveryd.errors import PerhapsWritten, RecoverydError
from recoveryd.kernel.catalogue import Code

_PATIENCE_S: Final = 5.0  # then we say what we wait for
_LEAST_S: Final = 0.1


class SendFate(StrEnum):
    NOT_SENT = "not_sent"
    UNSURE = "unsure"
    SENT = "sent"


@dataclass(slots=True)
class Posting:
    """One command: how far it came, and its answer once that is there."""

    record: OutgoingRecord
    fate: SendFate = SendFate.NOT_SENT
    sent: Sent | None = None
    answer: Document | None = None

    def write(self, backend: Backend) -> None:
        self.fate = SendFate.UNSURE
        try:
            self.sent = backend.send(self.record)
        except PerhapsWritten:
            raise
        except RecoverydError:
            self.fate = SendFate.NOT_SENT
            raise
        self.fate = SendFate.SENT
        detail(f"Sent as {self.place}, id {self.record.id}.")

    @property
    def place(self) -> str:
        offset = None if self.sent is None else self.sent.offset
        return f"a record of {self.record.topic}" if offset is None else f"offset {offset} of {self.record.topic}"


def hear(backend: Backend, postings: Sequence[Posting], limit_s: float) -> Iterator[Posting]:
    """Those that are answered, as the answers come; one deadline for all."""
    give_up_s = time.monotonic() + limit_s
    asked = {posting.sent: posting for posting in postings if posting.sent is not None}
    yield from _hear(backend, asked, min(_PATIENCE_S, limit_s))
    if asked and limit_s > _PATIENCE_S:
        [first, *more] = asked.values()
        others = f" (and {len(more)} more)" if more else ""
        note(f"Sent as {first.place}{others}; waiting for the daemon's answer.")
        yield from _hear(backend, asked, max(_LEAST_S, give_up_s - time.monotonic()))


def _hear(backend: Backend, asked: dict[Sent, Posting], limit_s: float) -> Iterator[Posting]:
    """Takes those that are answered out of `asked`."""
    for sent, answer in backend.answers(tuple(asked), limit_s):
        posting = asked.pop(sent)
        posting.answer = answer
        yield posting


def fates(postings: Sequence[Posting]) -> Document:
    """Of those without an answer, for programs."""
    return {
        "commands": [
            {
                "recovery": posting.record.key,
                "id": posting.record.id,
                "topic": posting.record.topic,
                "fate": posting.fate.value,
            }
            | ({} if posting.sent is None else {"offset": posting.sent.offset})
            for posting in postings
            if posting.answer is None
        ]
    }


@contextmanager
def telling(posting: Posting) -> Iterator[None]:
    """Ctrl-C, and a cluster that fails, end with what is known of the command by then."""
    try:
        yield
    except KeyboardInterrupt:
        tell_detached(f"Detached; {_known(posting)}. {_next_step(posting)}".rstrip(), fates([posting]))
        raise Detached from None
    except RecoverydError as error:
        if posting.fate is SendFate.NOT_SENT:
            raise
        hint = f"{first_step(error)} {_next_step(posting)}"
        raise Failure(error.code, f"{error.message}; {_known(posting)}.", hint, facts=fates([posting])) from error


@contextmanager
def being_taken(recovery: str) -> Iterator[None]:
    """What is asked for was taken by a daemon, and a cluster that fails now does not change that."""
    try:
        yield
    except RecoverydError as error:
        if error.code not in {Code.CLUSTER_UNREACHABLE, Code.NOT_AUTHORISED}:
            raise
        hint = f"{first_step(error)} Do not send it again: see it with `recoveryctl describe {recovery}`."
        raise Failure(error.code, f"{error.message}; the daemon has taken the command, which goes on.", hint) from error


def first_step(error: RecoverydError) -> str:
    """The catalogue's own would have it that the command can be sent again."""
    return "Check the brokers with `recoveryctl doctor`." if error.code is Code.CLUSTER_UNREACHABLE else error.hint


def _known(posting: Posting) -> str:
    match posting.fate:
        case SendFate.NOT_SENT:
            return "nothing was sent"
        case SendFate.UNSURE:
            return f"the command may have been written to {posting.record.topic}, and a daemon will handle it then"
        case _ if posting.answer is not None:
            return "the daemon has answered the command"
        case _:
            return f"the command is {posting.place}, and a daemon will handle it"


def _next_step(posting: Posting) -> str:
    match posting.fate:
        case SendFate.NOT_SENT:
            return ""
        case SendFate.UNSURE:
            return again(posting.record)
        case _:
            return f"See what became of it with `recoveryctl describe {posting.record.key}`; do not send it again."
