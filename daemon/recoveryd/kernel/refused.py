"""Why a request is not carried out: one value for every refusal of the core, with a code of the catalogue."""

from dataclasses import dataclass
from difflib import get_close_matches

from recoveryd.kernel.catalogue import Code


@dataclass(frozen=True, slots=True)
class Refused:
    """`message` is the sentence for the user, `hint` the right way, if it is known."""

    code: Code
    message: str
    hint: str = ""


class RefusedError(Exception):
    """Ends the making of a plan; the planner turns it into a `Refused`."""

    def __init__(self, code: Code, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.refused = Refused(code, message, hint)


def nearest_name(name: str, known: frozenset[str]) -> str:
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"the config has: {', '.join(sorted(known))}"
