"""How the command line fails: exit codes, and one exception that carries a catalogue code.

Every refusal a user sees is a code, one sentence and one next step. Adapters and config raise `RecoverydError`; the
verbs add `Failure`, which also knows the exit code of its place. Nothing here prints.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code


class ExitCode(IntEnum):
    """What a script can rely on; docs/cli.md explains each."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REJECTED = 4
    NOT_AUTHORISED = 5
    STALE_PLAN = 6
    AWAITING_APPROVAL = 7
    TIMED_OUT = 8
    DIFFERENCES = 9
    DETACHED = 130  # Ctrl-C: what was sent goes on without us


# Codes whose meaning has an exit code of its own; the others take that of the place where they came up.
_OWN_EXIT_CODES: dict[Code, ExitCode] = {
    Code.NO_SUCH_RECOVERY: ExitCode.NOT_FOUND,
    Code.NO_SUCH_GROUP: ExitCode.NOT_FOUND,
    Code.NO_SUCH_CONTEXT: ExitCode.NOT_FOUND,
    Code.NO_LOG: ExitCode.NOT_FOUND,
    Code.NOT_AUTHORISED: ExitCode.NOT_AUTHORISED,
    Code.STALE_PLAN: ExitCode.STALE_PLAN,
    Code.WAIT_TIMED_OUT: ExitCode.TIMED_OUT,
    Code.NO_ANSWER: ExitCode.TIMED_OUT,
    Code.VERIFICATION_MISMATCH: ExitCode.DIFFERENCES,
    Code.USAGE: ExitCode.USAGE,
    Code.CONFIG_UNREADABLE: ExitCode.USAGE,
    Code.CONFIG_UNKNOWN_KEY: ExitCode.USAGE,
    Code.CONFIG_INVALID: ExitCode.USAGE,
    Code.BOOTSTRAP_MISSING: ExitCode.USAGE,
}


class Failure(RecoverydError):  # noqa: N818  (the word for it everywhere else)
    """Ends the program with `exit_code`."""

    def __init__(
        self,
        code: Code,
        message: str = "",
        hint: str = "",
        *,
        otherwise: ExitCode = ExitCode.FAILED,
        facts: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """`otherwise` is the exit code of a catalogue code that has none of its own; `facts`: more of it for programs,
        where errors are JSON.
        """
        super().__init__(code, message, hint)
        self.facts = facts
        self.exit_code = exit_code_of(code.value, otherwise)


def usage(message: str, hint: str = "") -> Failure:
    """A command line that is wrong by itself: nothing was sent."""
    return Failure(Code.USAGE, message, hint)


def invalid(code: Code, message: str, hint: str = "") -> Failure:
    """A value that the daemon would refuse too, found before anything was sent."""
    return Failure(code, message, hint, otherwise=ExitCode.USAGE)


def exit_code_of(code: str, otherwise: ExitCode) -> ExitCode:
    """Exit code of a catalogue code as it stands in an answer or status record; unknown ones (a newer daemon) give
    `otherwise`.
    """
    try:
        return _OWN_EXIT_CODES.get(Code(code), otherwise)
    except ValueError:
        return otherwise
