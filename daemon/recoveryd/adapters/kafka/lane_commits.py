"""Writes the commit markers that a broker forgot of a lane's last chunk, once the lane is fenced and none follows it:
reads what lies there; `lane_markers` judges.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.lane_markers import (
    Claims,
    Laid,
    Place,
    by_lane,
    is_landed,
    open_receipts,
    read_receipts,
)
from recoveryd.adapters.kafka.offsets import LATEST, read_offsets
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.reading import headers_of, pair_of, read_range, read_ranges
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.effects import ReadLedger
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import Receipt, ReceiptsHome, read_chunk_header, transactional_id

_ASK_S: Final = 10.0
_READ_S: Final = 45.0
_MARK_S: Final = 60.0

Bounds = Mapping[Place, tuple[int, int]]  # the last stable offset and the end, of places with something open

_log = logging.getLogger("recoveryd.kafka")


class LaneCommits:
    """For one recovery on its target cluster. Blocking. `moved` is called for each record that was read: receipts since
    the plan may be millions.
    """

    def __init__(
        self,
        properties: Properties,
        access: ClientAccess,
        scope: str,
        home: ReceiptsHome,
        effect: ReadLedger,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._properties, self._access = properties, access
        self._scope, self._recovery = scope, effect.recovery
        self._home = home.topic, home.partition
        self._moved = moved
        # What the looks before have found, and up to where: a look for each lane is taken within its deadline.
        self._claiming, self._seen_to = dict[bytes, Receipt](), home.start
        target = effect.plan.target
        self._topic = target.topic
        self._targets = [(target.topic, partition) for partition in range(target.partitions)]

    def write_missing(self, transaction_timeout_ms: int) -> None:
        """Call it with all lanes fenced. Where nothing is open, it only asks for offsets; where the cluster does not
        tell what lies there, it leaves that to the next attempt. Raises `ClusterProblem` where markers stay lacking.
        """
        try:
            landed = by_lane(self._landed())
        except ClusterProblem as silence:
            _log.warning("cannot look for lost markers of %s: %s", self._recovery, silence.message)
            return
        for lane, places in landed.items():
            _log.warning("a broker forgot markers of what lane %d had committed, writes them in %s", lane, places)
            asyncio.run(self._commit(lane, transaction_timeout_ms))

    async def _commit(self, lane: int, transaction_timeout_ms: int) -> None:
        async def choose() -> Sequence[Place]:  # again: a lane that was thought dead may have done it meanwhile
            return by_lane(await asyncio.to_thread(self._landed)).get(lane, [])

        name = transactional_id(self._scope, self._recovery, lane)
        async with connected(self._access, name, "write the marker of a chunk again", _MARK_S) as client:
            await client.commit_open(name, transaction_timeout_ms, choose)

    def _landed(self) -> dict[Place, int]:
        """Places in which a marker is lacking behind what landed, with the lane."""
        bounds, end = self._open(make_admin(self._properties))
        found = None
        if self._home in bounds:
            laid = list(self._laid(bounds[self._home], "read_uncommitted"))
            found = open_receipts(self._scope, self._recovery, laid)
        if found is None and not bounds.keys() & set(self._targets):
            return {}
        seen = self._seen_receipts(bounds, end)
        if found is not None:
            lane, receipts = found
            places = self._landed_in_target(bounds, [*seen, *receipts])
            if self._are_there(receipts, bounds, places):
                return {**places, self._home: lane}
        return self._landed_in_target(bounds, seen)

    def _open(self, admin: AdminClient) -> tuple[dict[Place, tuple[int, int]], int]:
        """And where the receipts end that are committed, asked before the target: all that they claim lies before the
        ends there.
        """
        found, ends = dict[Place, tuple[int, int]](), dict[Place, int]()
        for asked in ([self._home], self._targets):
            # The end first: where others write all the time, it would have moved on, and something would look open.
            high, stable = (read_offsets(admin, asked, LATEST, _ASK_S, committed=c) for c in (False, True))
            found |= {place: (stable[place[1]], high[place[1]]) for place in asked if stable[place[1]] < high[place[1]]}
            ends |= {place: stable[place[1]] for place in asked}
        return found, ends[self._home]

    def _stable(self, bounds: Bounds) -> dict[int, int]:
        """Of the target's partitions with something open."""
        return {place[1]: bounds[place][0] for place in self._targets if place in bounds}

    def _seen_receipts(self, bounds: Bounds, end: int) -> list[Receipt]:
        """Those that claim something of what is open in the target. Each is read once: what claimed nothing open then
        claims nothing that was opened since.
        """
        stable = self._stable(bounds)
        if stable:
            laid = self._laid((self._seen_to, end), "read_committed")
            read_receipts(self._scope, self._recovery, laid, stable, self._claiming)
        self._seen_to = max(self._seen_to, end)
        return list(self._claiming.values())

    def _landed_in_target(self, bounds: Bounds, receipts: Sequence[Receipt]) -> dict[Place, int]:
        claims, found = Claims(self._stable(bounds)), dict[Place, int]()
        for receipt in receipts:
            claims.add(receipt)
        mine = [p for p in self._targets if p in bounds and claims.lane_of(p[1], bounds[p][0]) is not None]
        offsets: dict[int, list[int]] = {}
        for message in self._read_target({p[1]: bounds[p] for p in mine}, "read_uncommitted"):
            offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)
        for place in mine:
            lane = is_landed(claims, place[1], offsets.get(place[1], []))
            if lane is not None:
                found[place] = lane
        return found

    def _are_there(self, receipts: Sequence[Receipt], bounds: Bounds, places: Mapping[Place, int]) -> bool:
        """Whether readers see what these receipts claim, or will with these commits. The last record of a chunk in a
        partition tells it of all, since they share their marker.
        """
        lasts: dict[tuple[int, int], int] = {}
        for receipt in receipts:
            for run in (run for run in receipt.targets if run.runs):
                last, piece = max(first + count - 1 for first, count in run.runs), (run.partition, receipt.chunk)
                lasts[piece] = max(last, lasts.get(piece, last))
        wanted: set[tuple[int, int]] = set()  # partition, offset
        for (partition, _chunk), last in lasts.items():
            place = self._targets[partition]
            if place not in bounds or last < bounds[place][0]:
                wanted.add((partition, last))
            elif place not in places:
                return False
        ranges: dict[int, tuple[int, int]] = {}
        for partition, at in wanted:
            first, stop = ranges.get(partition, (at, at + 1))
            ranges[partition] = min(first, at), max(stop, at + 1)
        return wanted <= {(m.partition(), m.offset()) for m in self._read_target(ranges, "read_committed")}

    def _laid(self, bounds: tuple[int, int], isolation: str) -> Iterator[Laid]:
        for message in read_range(self._properties, *self._home, bounds, _READ_S, isolation_level=isolation):
            self._moved()
            key, value = pair_of(message)
            yield Laid(message.offset() or 0, key or b"", value, read_chunk_header(headers_of(message)))

    def _read_target(self, ranges: Mapping[int, tuple[int, int]], isolation: str) -> Iterator[Message]:
        """By one client, however many partitions: a lane may have written to a thousand."""
        for message in read_ranges(self._properties, self._topic, ranges, _READ_S, isolation_level=isolation):
            self._moved()
            yield message
