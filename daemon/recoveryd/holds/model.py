"""The record of a hold: everything that must survive a restart. All times are milliseconds since the epoch (UTC).

A hold has the envelope of a recovery and the states running (held), completed (released), stopped and expired. A topic
is held while a hold is running that has it among its `topics`; whoever wants to know needs nothing else.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from recoveryd.holds.signals import HeldPosition
from recoveryd.kernel.noun import StatusNoun
from recoveryd.kernel.states import Stop
from recoveryd.kernel.written import TimeMs, named

KIND = "hold"


class Obeys(StrEnum):
    """How far a member of a consumer group is in obeying a hold. `silent`: it reads there and said nothing."""

    SILENT = "silent"
    DRAINING = "draining"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class HeldMember:
    """A member of a consumer group that reads held topics. `positions`: where it stands still."""

    group: str
    member: str
    state: Obeys
    since_ms: TimeMs = field(metadata=named("since"))
    client: str = ""
    positions: tuple[HeldPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold(StatusNoun):
    """`topics` are held as long as it runs; when it ended, those that it had last. `released` are those that were let
    go before. `missing`: topics of it that do not exist, as the broker said last. `obeyed`: the consumer groups of
    which every member has paused, as far as the broker knows members.
    """

    cluster: str
    topics: tuple[str, ...]
    reads: bool = False
    expires_ms: TimeMs | None = field(default=None, metadata=named("expires"))
    released: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    members: tuple[HeldMember, ...] = ()
    obeyed: tuple[str, ...] = ()
    stop: Stop | None = None
    kind = KIND

    @property
    def owner(self) -> str:
        """Who placed it: the source of its command."""
        return self.command.source
