"""Staying with a recovery until it is where somebody wants it, and what exit code its state means.

Ctrl-C never touches the recovery: it detaches us and says how to attach again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

from recoveryd.cli.failure import ExitCode, Failure, exit_code_of
from recoveryd.cli.render.output import note
from recoveryd.cli.send.backend import Backend
from recoveryd.cli.status import Document, OnChange, told_why
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import StopReason


class Detached(Exception):  # noqa: N818  (it is no error: the recovery goes on)
    """Ctrl-C after something was sent, or while following."""


def exit_code_of_state(document: Document) -> ExitCode:
    """What the present state means for a script. A verification was asked a question: where it ended without an answer
    it was not done, whoever ended it; a copy that was stopped on purpose was, and one that retention outran was not.
    """
    verification = document.get("verification") or {}
    if verification.get("result") == "mismatch":
        return ExitCode.DIFFERENCES
    match document["state"]:
        case "failed" | "stopped" if document["state"] == "failed" or _was_not_wanted(document):
            return exit_code_of(document.get("error_code") or "", ExitCode.FAILED)
        case "rejected" | "expired":
            return exit_code_of(document.get("error_code") or "", ExitCode.REJECTED)
        case "awaiting_approval":
            return ExitCode.AWAITING_APPROVAL
        case _:
            return ExitCode.FAILED if _lacks_verdict(document) else ExitCode.DONE


def _was_not_wanted(document: Document) -> bool:
    """Earlier releases gave a lost race no code."""
    is_lost = (document.get("stop") or {}).get("reason") == StopReason.RETENTION_RACE
    return is_lost or bool(document.get("error_code"))


def _lacks_verdict(document: Document) -> bool:
    is_over = document.get("kind") == "verification" and document["state"] in ("stopped", "completed")
    return is_over and (document.get("verification") or {}).get("result") != "match"


def wait_for(
    backend: Backend,
    recovery: str,
    is_reached: Callable[[Document], bool],
    *,
    timeout_s: float | None,
    on_change: OnChange,
    command_id: str = "",
    known: Document | None = None,
    begun_s: float | None = None,
) -> Document:
    """Follow until `is_reached`, calling `on_change` with each status.

    With `command_id`, records of an earlier life of the same id (a dry run before) are passed over. `known` was read
    already: it is judged first, and nothing is asked where it is enough. The time counts from `begun_s` (monotonic), or
    from now. Raises `Failure` when it is over.
    """
    give_up_s = None if timeout_s is None else (time.monotonic() if begun_s is None else begun_s) + timeout_s
    newest: tuple[str, int] | None = None
    state = ""
    with detaching(recovery):
        for document in chain(() if known is None else (known,), backend.follow(recovery)):
            if document is not None and _is_of(document, command_id) and _is_news(document, newest):
                newest = _version(document)
                why = told_why(document)
                state = f" It is {document['state']}: {why}" if why else ""
                on_change(document)
                if is_reached(document):
                    return document
            if give_up_s is not None and time.monotonic() >= give_up_s:
                break
    message = f"{recovery} did not get there within {timeout_s:g} s.{state}"
    raise Failure(Code.WAIT_TIMED_OUT, message, f"It goes on; attach again with `recoveryctl wait {recovery}`.")


@contextmanager
def detaching(recovery: str | None) -> Iterator[None]:
    """Turns Ctrl-C into a word about how to come back, and exit code 130. None stands for all of them."""
    try:
        yield
    except KeyboardInterrupt:
        goes = f"{recovery} goes on" if recovery else "all go on"
        note(f"\nDetached; {goes}. Attach again with `recoveryctl watch {recovery or '--all'}`.")
        raise Detached from None


def _version(document: Document) -> tuple[str, int]:
    return (document.get("command") or {}).get("id", ""), document.get("version", 0)


def _is_news(document: Document, newest: tuple[str, int] | None) -> bool:
    """A reader that starts in the middle may hear an older version again; an id that is used again starts anew."""
    return newest is None or _version(document)[0] != newest[0] or _version(document)[1] > newest[1]


def _is_of(document: Document, command_id: str) -> bool:
    return not command_id or (document.get("command") or {}).get("id") == command_id
