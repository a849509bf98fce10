"""How this program speaks: quietly, at length, without colour, with tracebacks, its errors as JSON. A program speaks in
one manner, so it is kept here and not handed from verb to verb; `app` sets it before anything else happens.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FORMS: Final = ("json", "jsonl")


@dataclass(slots=True)
class Manner:
    quiet: bool = False  # no hints and no progress; errors and questions stay
    verbose: bool = False  # where it connects to, and what was written where
    colour: bool = True  # False: none, wherever it prints to
    debug: bool = False  # tracebacks, and what the client libraries log
    json_errors: bool = False

    def begin(self, words: Sequence[str]) -> None:
        """The manner of a new command line. Errors of the parser count too, so the words themselves are looked at."""
        self.quiet, self.verbose, self.colour, self.debug = False, False, True, False
        self.json_errors = wants_json(words)


def wants_json(words: Sequence[str]) -> bool:
    """Whether `-o json` or `-o jsonl` stands among the words, in any way in which it can be written."""
    for word, following in itertools.pairwise([*words, ""]):
        if word == "--":
            break
        if (word in {"-o", "--output"} and following in _FORMS) or word in {
            start + form for start in ("-o", "--output=") for form in _FORMS
        }:
            return True
    return False


manner = Manner()
