"""Which ended nouns to forget: each some time after its end, and the oldest when there are too many, so that a daemon
of many years costs no more than a new one. Nothing is forgotten before it is known what was sent while no daemon ran: a
command may be about it.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, Protocol, TypeVar

from recoveryd.kernel.draft import View

AT_ONCE: Final = 500
_LOOKED_AT: Final = 10 * AT_ONCE


class Ended(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def updated_ms(self) -> int: ...


class Keeps(Protocol):
    """The parameters of a capability that say how long, and how many, of its ended nouns are kept."""

    @property
    def keep_terminal_ms(self) -> int: ...

    @property
    def keep_terminal_most(self) -> int: ...


_Ended = TypeVar("_Ended", bound=Ended)


def overdue(view: View, ended: Mapping[str, _Ended], params: Keeps) -> Iterator[_Ended]:
    """Those to forget now, the oldest first; `ended` is in the order in which they ended. Looks at a few thousand of
    them at most.
    """
    too_many = len(ended) - params.keep_terminal_most
    for number, one in enumerate(islice(ended.values(), _LOOKED_AT) if view.has_read else ()):
        if number >= too_many and view.now_ms - one.updated_ms < params.keep_terminal_ms:
            return
        yield one


def overdue_ids(view: View, ended: Mapping[str, Ended], params: Keeps) -> list[str]:
    """Ids of those to forget now, at most one batch: for nouns that have nothing outside the status topic."""
    return [one.id for one in islice(overdue(view, ended, params), AT_ONCE)]
