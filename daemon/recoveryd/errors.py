"""What adapters, config and command line raise: foreign errors, translated once at the edge.

Every error carries a code of the catalogue, says whether trying again may help, and what to do next. A refused command
raises nothing: its refusal is a value (`recoveryd.kernel.refused.Refused`). Texts and codes live in
`recoveryd.kernel.catalogue`.
"""

from collections.abc import Sequence

from recoveryd.kernel.catalogue import Code


class RecoverydError(Exception):
    """`message` names the thing at fault, `hint` is the next step (the catalogue's unless given), `retriable` says
    whether it may work later.
    """

    def __init__(self, code: Code, message: str = "", hint: str = "", *, retriable: bool = False) -> None:
        self.code = code
        self.message = message or code.sentence
        self.hint = hint or code.next_step
        self.retriable = retriable
        super().__init__(f"{code.value} {self.message}")


class Fenced(RecoverydError):  # noqa: N818  (named for what happened)
    """Another daemon holds the journal; this one must not act any more."""

    def __init__(self, message: str = "") -> None:
        super().__init__(Code.FENCED, message)


class LaunchError(RecoverydError):
    """A Spark application could not be started."""

    def __init__(self, message: str, *, code: Code = Code.LAUNCH_FAILED, retriable: bool = True) -> None:
        super().__init__(code, message, retriable=retriable)


class ClusterProblem(RecoverydError):  # noqa: N818  (named for what happened)
    """A cluster did not answer, or refused. Retriable unless told otherwise."""

    def __init__(
        self, message: str, hint: str = "", *, code: Code = Code.CLUSTER_UNREACHABLE, retriable: bool = True
    ) -> None:
        super().__init__(code, message, hint, retriable=retriable)


class PerhapsWritten(ClusterProblem):
    """A record was handed over and no word came whether it is on its topic: it may be."""


class FormProblem(RecoverydError):  # noqa: N818  (named for what happened)
    """A command has a form that the daemon itself would refuse, so it was not sent."""


class OwnTopicProblem(RecoverydError):  # noqa: N818  (named for what happened)
    """Own topics are missing or wrong; `problems` has one sentence for each."""

    def __init__(self, problems: Sequence[str], *, code: Code = Code.OWN_TOPIC_MISSING) -> None:
        self.problems = tuple(problems)
        super().__init__(code, " ".join(self.problems))


class ConfigProblem(RecoverydError):  # noqa: N818  (named for what happened)
    """The config is not usable. `key` is the dotted path, `line` counts from 1 (0 = not from a file), `origin` the file
    or variable it came from.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        code: Code = Code.CONFIG_INVALID,
        key: str = "",
        origin: str = "",
        line: int = 0,
    ) -> None:
        self.key = key
        self.origin = origin
        self.line = line
        place = f"{origin}:{line}: " if origin and line else f"{origin}: " if origin else ""
        super().__init__(code, place + message, hint)
