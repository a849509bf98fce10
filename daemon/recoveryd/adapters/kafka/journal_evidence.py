"""What the journal's own topics say about who leads and what landed, read by plain clients: the witness of
`journal_session`. What follows from it is judged in `journal_judgement`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.journal_judgement import Acknowledged, Judgement, judge
from recoveryd.adapters.kafka.journal_stamps import LEADER_HEADER, HiddenRecord, Transaction, make_copy, read_found
from recoveryd.adapters.kafka.journal_tails import PartitionTail, Place, make_tail
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, log_range, read_offsets
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.reading import headers_of, pair_of, read_range
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.wire.status_topic import DAEMON_KEY
from recoveryd.wire.topics import TopicNames

_ASK_S = 10.0
_READ_S = 60.0
_SETTLE_S = 2.0
_PAUSE_S = 0.1
_MARK_S, _MARK_ONE_S, _MARK_MS = 90.0, 5.0, 30_000
_UNCOMMITTED: Final[Mapping[str, Any]] = {"isolation_level": "read_uncommitted"}
_LEFT_OUT: Final = "The user lacks Read on Topic %s: what a broker forgets to mark there is not found, and it can hide what was committed. Grant it; docs/acls.md has the whole list."
_UNKNOWN = "a daemon that leaves no name"

_log = logging.getLogger("recoveryd.journal")

T = TypeVar("T")


class KafkaEvidence:
    """`leader` is our own mark; a `_daemon` record with another one, or none, is somebody else's. `access` is the way
    to the same cluster as `properties`, `writer_id` the journal's transactional id.
    """

    def __init__(
        self, properties: Properties, access: Callable[[], ClientAccess], names: TopicNames, leader: str, writer_id: str
    ) -> None:
        self._properties = properties
        self._access = access
        self._status = names.status
        self._places = [(name, 0) for name in (names.status, names.events, names.directives, names.dlq)]
        # Earlier releases only wrote these, so the right to read them may be lacking. The journal can do without.
        self._dispensable = frozenset({(names.events, 0), (names.dlq, 0)})
        self._left_out: set[Place] = set()
        self._leader = leader.encode()
        self._writer_id = writer_id

    def end(self) -> int:
        return read_offsets(make_admin(self._properties), [(self._status, 0)], LATEST, _ASK_S)[0]

    def other_leader_since(self, offset: int) -> str | None:
        # Uncommitted records too: whoever tried to write opened the journal, and no open transaction may hide it.
        start, end = log_range(make_admin(self._properties), self._status, 0, _ASK_S)
        bounds = (max(start, offset), end)
        for message in read_range(self._properties, self._status, 0, bounds, _READ_S, **_UNCOMMITTED):
            if message.key() == DAEMON_KEY.encode():
                found = dict(headers_of(message)).get(LEADER_HEADER)
                if found != self._leader:
                    return found.decode(errors="replace") if isinstance(found, bytes) else _UNKNOWN
        return None

    def is_seen(self, transaction: Transaction, tried: Sequence[Marks]) -> bool:
        admin = make_admin(self._properties)

        def is_there(place: Place) -> bool:
            offsets = {marks[place] for marks in tried if place in marks}
            landed = min(offsets), min(max(offsets) + 1, _ends(admin, place)[0])
            found = map(_found, read_range(self._properties, *place, landed, _READ_S))
            return any(f.offset in offsets and f.stamp and f.stamp.transaction == transaction for f in found)

        places = {place for marks in tried for place in marks}
        return any(there for place in places for there in self._if_allowed(place, is_there))

    def judge(self, acknowledged: Acknowledged, given_up: Transaction | None = None) -> Judgement:
        """Asked for a moment: the last marker of a transaction may be on its way."""
        admin = make_admin(self._properties)
        give_up_s = time.monotonic() + _SETTLE_S
        while True:
            ends = {place: _ends(admin, place) for place in self._places}
            if all(stable >= end for stable, end in ends.values()) or time.monotonic() >= give_up_s:
                break
            time.sleep(_PAUSE_S)

        def look(place: Place) -> PartitionTail:
            start = read_offsets(admin, [place], EARLIEST, _ASK_S)[place[1]]
            return make_tail(place, _Log(self._properties, place, start, *ends[place]))

        tails = [tail for place in self._places for tail in self._if_allowed(place, look)]
        return judge(tails, acknowledged, given_up)

    def commit_landed(self, acknowledged: Acknowledged) -> None:
        """Judged again once nobody else can write: whoever opened the journal meanwhile may have ended what was
        open.
        """

        def choose() -> Sequence[Place]:
            return self.judge(acknowledged).commit

        async def ask() -> None:
            doing = "write the marker of a journal transaction again"
            async with connected(self._access(), self._writer_id, doing, _MARK_S, _MARK_ONE_S) as client:
                await client.commit_open(self._writer_id, _MARK_MS, lambda: asyncio.to_thread(choose))

        asyncio.run(ask())

    def make_copies(self, lost: Sequence[tuple[Place, HiddenRecord]]) -> Sequence[OutgoingKafkaRecord]:
        copies: list[OutgoingKafkaRecord] = []
        for place in dict.fromkeys(place for place, _ in lost):
            wanted = {found.offset: found for where, found in lost if where == place}
            bounds = min(wanted), max(wanted) + 1
            copies += [
                make_copy(wanted[message.offset() or 0], self._record(message))
                for message in read_range(self._properties, *place, bounds, _READ_S, **_UNCOMMITTED)
                if message.offset() in wanted
            ]
        return copies

    def _if_allowed(self, place: Place, look: Callable[[Place], T]) -> Iterator[T]:
        """What `look` finds; nothing, and a word in the log, in a partition that we may not read and can do without."""
        try:
            found = look(place)
        except ClusterProblem as problem:
            if place not in self._dispensable or problem.code is not Code.NOT_AUTHORISED:
                raise
            if place not in self._left_out:
                self._left_out.add(place)
                _log.error(_LEFT_OUT, place[0])
        else:
            self._left_out.discard(place)
            yield found

    def _record(self, message: Message) -> OutgoingKafkaRecord:
        headers = headers_of(message)
        if message.topic() == self._status and message.key() == DAEMON_KEY.encode():  # what we write is our mark
            headers = tuple((name, self._leader if name == LEADER_HEADER else value) for name, value in headers)
        return OutgoingKafkaRecord(message.topic() or "", *pair_of(message), headers)


@dataclass(frozen=True, slots=True)
class _Log:
    properties: Properties
    place: Place
    start: int
    stable: int
    end: int

    def seen(self, start: int, stop: int) -> Iterator[HiddenRecord]:
        return map(_found, read_range(self.properties, *self.place, (start, stop), _READ_S))

    def all(self, start: int, stop: int) -> Iterator[HiddenRecord]:
        return map(_found, read_range(self.properties, *self.place, (start, stop), _READ_S, **_UNCOMMITTED))


def _found(message: Message) -> HiddenRecord:
    return read_found(message.offset() or 0, headers_of(message))


def _ends(admin: AdminClient, place: Place) -> tuple[int, int]:
    """The last stable offset and the end."""
    stable, end = [read_offsets(admin, [place], LATEST, _ASK_S, committed=c)[place[1]] for c in (True, False)]
    return stable, end
