"""How long what ended is kept: some time after its end, and no more than so many, so that a daemon that ran for years costs what one of last week costs."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, Protocol, TypeVar

AT_ONCE: Final = 500
_LOOKED_AT: Final = 10 * AT_ONCE


class Ended(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def updated_ms(self) -> int: ...


_Ended = TypeVar("_Ended", bound=Ended)


def overdue(ended: Mapping[str, _Ended], keep_ms: int, keep_most: int, now_ms: int) -> Iterator[_Ended]:
    """Those to be forgotten now, the oldest first; `ended` is in the order in which they ended. At most a few thousand are looked at."""
    too_many = len(ended) - keep_most
    for number, one in enumerate(islice(ended.values(), _LOOKED_AT)):
        if number >= too_many and now_ms - one.updated_ms < keep_ms:
            return
        yield one
