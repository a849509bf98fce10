"""One command to each of several: all are written before one answer is awaited, and all answers have one deadline.

Where that ends early, whoever has an emergency needs to know who was told, who perhaps, and who was not.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.render.output import print_failure, tell_detached
from recoveryd.cli.send.backend import Backend, OutgoingRecord
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.posting import Posting, SendFate, fates, first_step, hear
from recoveryd.cli.send.same_command import again
from recoveryd.cli.send.sending import answer_limit_s, judge
from recoveryd.cli.send.waiting import Detached
from recoveryd.cli.status import Document
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code


@dataclass(slots=True)
class SentAll:
    """Whose command was accepted, and the exit codes of the others; `unwritten`: that of the write that failed, behind
    which nothing was sent.
    """

    accepted: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    unwritten: int = ExitCode.DONE

    @property
    def exit_code(self) -> int:
        """What was not sent weighs most: nothing will come of it."""
        return self.unwritten or max(self.codes, default=ExitCode.DONE)


def send_all(
    connection: Connection,
    records: Sequence[OutgoingRecord],
    timeout_s: float | None,
    on_accepted: Callable[[str, Document], None],
) -> SentAll:
    """One that is refused (it may just have ended) stops no other. Raises `Failure` where answers can not be read."""
    limit_s, outcome = answer_limit_s(timeout_s), SentAll()
    postings = [Posting(record) for record in records]
    with _telling(postings):
        outcome.unwritten = _write(connection.backend, postings)
        for posting in hear(connection.backend, postings, limit_s):
            key = posting.record.key
            try:
                on_accepted(key, judge(posting.answer or {}))
                outcome.accepted.append(key)
            except Failure as refusal:
                outcome.codes.append(_tell(refusal))
    silent = [posting for posting in postings if posting.fate is SendFate.SENT and posting.answer is None]
    if silent:
        outcome.codes.append(_tell(_no_answer(silent, limit_s, fates(postings))))
    return outcome


def _write(backend: Backend, postings: Sequence[Posting]) -> int:
    """Each in turn, and none behind one that fails: it would wait as long. That is told before any answer is awaited.
    Gives the exit code.
    """
    try:
        for posting in postings:
            posting.write(backend)
    except RecoverydError as error:
        return _tell(_early_end(error, postings))
    return ExitCode.DONE


def _tell(failure: Failure) -> int:
    """One that ends nothing."""
    print_failure(failure, failure.exit_code)
    return failure.exit_code


@contextmanager
def _telling(postings: Sequence[Posting]) -> Iterator[None]:
    """Ctrl-C, and a cluster that fails, end with what is known of each by then."""
    try:
        yield
    except KeyboardInterrupt:
        told = [f"Detached; {_story(postings)}.", *_next_steps(postings)]
        tell_detached(" ".join(told), fates(postings))
        raise Detached from None
    except RecoverydError as error:
        raise _early_end(error, postings) from error


def _early_end(error: RecoverydError, postings: Sequence[Posting]) -> Failure:
    hint = " ".join([first_step(error), *_next_steps(postings)])
    return Failure(error.code, f"{error.message}; {_story(postings)}.", hint, facts=fates(postings))


def _no_answer(silent: Sequence[Posting], limit_s: float, facts: Document) -> Failure:
    hint = "Look for the daemon with `recoveryctl doctor`; it handles these commands when it runs, so do not send them again."
    message = f"No daemon answered in {limit_s:g} s; without an answer: {_places(silent)}."
    return Failure(Code.NO_ANSWER, message, hint, facts=facts)


def _story(postings: Sequence[Posting]) -> str:
    sent, unsure, unsent = (_open(postings, fate) for fate in (SendFate.SENT, SendFate.UNSURE, SendFate.NOT_SENT))
    parts = [f"sent, and a daemon will handle it: {_places(sent)}"] if sent else []
    parts += [f"perhaps written: {_names(unsure)}"] if unsure else []
    parts += [f"not sent: {_names(unsent)}"] if unsent else []
    return "; ".join(parts) or "each has its answer"


def _next_steps(postings: Sequence[Posting]) -> list[str]:
    unsent = _open(postings, SendFate.NOT_SENT)
    steps = [again(posting.record) for posting in _open(postings, SendFate.UNSURE)]
    steps += [f"Send it to each that was not told: {_names(unsent)}."] if unsent else []
    if _open(postings, SendFate.SENT):
        steps.append("Do not send again what was sent; `recoveryctl list` shows what became of it.")
    return steps


def _open(postings: Sequence[Posting], fate: SendFate) -> list[Posting]:
    return [posting for posting in postings if posting.fate is fate and posting.answer is None]


def _names(postings: Sequence[Posting]) -> str:
    return ", ".join(posting.record.key for posting in postings)


def _places(postings: Sequence[Posting]) -> str:
    return ", ".join(f"{posting.record.key} ({posting.place})" for posting in postings)
