"""What the journal's own topics say about who leads and what landed, read by plain clients: the witness of
`journal_session`.
"""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.offsets import LATEST, log_range, read_offsets
from recoveryd.adapters.kafka.reading import headers_of, read_range
from recoveryd.adapters.kafka.transactions import Marks
from recoveryd.wire.status_topic import DAEMON_KEY
from recoveryd.wire.topics import TopicNames

LEADER_HEADER: Final = "recoveryd-leader"

_ASK_S = 10.0
_READ_S = 60.0
_SETTLE_S = 2.0
_PAUSE_S = 0.1
_UNKNOWN = "a daemon that leaves no name"


class KafkaEvidence:
    """`leader` is our own mark; a `_daemon` record with another one, or none, is somebody else's."""

    def __init__(self, properties: Properties, names: TopicNames, leader: str) -> None:
        self._properties = properties
        self._status = names.status
        self._partitions = [(name, 0) for name in (names.status, names.events, names.directives, names.dlq)]
        self._leader = leader.encode()

    def end(self) -> int:
        return log_range(make_admin(self._properties), self._status, 0, _ASK_S)[1]

    def other_leader_since(self, offset: int) -> str | None:
        # Uncommitted records too: whoever tried to write opened the journal, and no open transaction may hide it.
        start, end = log_range(make_admin(self._properties), self._status, 0, _ASK_S)
        bounds = (max(start, offset), end)
        for message in read_range(
            self._properties, self._status, 0, bounds, _READ_S, isolation_level="read_uncommitted"
        ):
            if message.key() == DAEMON_KEY.encode():
                found = dict(headers_of(message)).get(LEADER_HEADER)
                if found != self._leader:
                    return found.decode(errors="replace") if isinstance(found, bytes) else _UNKNOWN
        return None

    def has_landed(self, marks: Marks, acknowledged: Marks) -> bool:
        admin = make_admin(self._properties)
        is_behind = is_aborted = False
        for place, offset in marks.items():
            stable, end = _ends(admin, place)
            if stable > offset:
                if any(True for _ in read_range(self._properties, *place, (offset, offset + 1), _READ_S)):
                    return True
                is_aborted = True
            elif end == offset + 1 and self._lacks_marker(place, stable, end, acknowledged):
                is_behind = True
        return is_behind and not is_aborted

    def left_open(self, acknowledged: Marks) -> Sequence[tuple[str, int]]:
        """Asked for a moment: the last marker of a transaction may be on its way."""
        admin = make_admin(self._properties)
        give_up_s = time.monotonic() + _SETTLE_S
        left = self._partitions
        while left:
            left = [place for place in left if self._is_open(admin, place, acknowledged)]
            if time.monotonic() >= give_up_s:
                break
            if left:
                time.sleep(_PAUSE_S)
        return left

    def _is_open(self, admin: AdminClient, place: tuple[str, int], acknowledged: Marks) -> bool:
        stable, end = _ends(admin, place)
        return stable < end and not self._lacks_marker(place, stable, end, acknowledged)

    def _lacks_marker(self, place: tuple[str, int], stable: int, end: int, acknowledged: Marks) -> bool:
        """Whether the last acknowledged transaction is among what is open, since the broker forgot its marker. That
        would stand right behind its last record; where it does, somebody else's transaction is open.
        """
        marker = acknowledged.get(place, 0)
        if marker <= stable or marker > end:
            return False
        behind = (marker, min(marker + 1, end))
        records = read_range(self._properties, *place, behind, _READ_S, isolation_level="read_uncommitted")
        return marker == end or any(True for _ in records)


def _ends(admin: AdminClient, place: tuple[str, int]) -> tuple[int, int]:
    """The last stable offset and the end."""
    stable, end = [read_offsets(admin, [place], LATEST, _ASK_S, committed=c)[place[1]] for c in (True, False)]
    return stable, end
