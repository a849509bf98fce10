"""Reading the receipts of a recovery on its target cluster, after fencing its lanes when asked.

The receipts say what is done; this says when it is safe to believe that no more will come: once `init_transactions`
answered for a lane's transactional id, its open transaction is ended and its late writer shut out.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException, Message

from recoveryd.adapters.kafka.client import (
    Properties,
    make_admin,
    make_producer,
    make_transactional_producer,
    problem,
    shut_out,
)
from recoveryd.adapters.kafka.lane_commits import LaneCommits
from recoveryd.adapters.kafka.offsets import log_range
from recoveryd.adapters.kafka.reading import pair_of, read_range
from recoveryd.adapters.kafka.receipts import (
    LedgerSum,
    RunningSum,
    add_up,
    from_heads,
    head_positions,
    heads_prefix,
    is_at_end,
    key_prefix,
    made_again,
    misplaced,
    newest_values,
    nothing_found,
)
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.effects import EndedRecovery, ForgetRecoveries, ReadLedger
from recoveryd.recovery.events import LedgerRead
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import receipts_partition, transactional_id

_ASK_S = 10.0
_FENCE_S = 30.0
# Without a record; chunks of other recoveries in the same partition hold the end for as long as they are open.
_PATIENCE_S = 45.0
_TELL_S = 2.0
_POLL_S = 0.1
_FORGET_MS = 30_000
_LOOKS = 3  # that count as progress

_log = logging.getLogger("recoveryd.kafka")
_FENCERS = 8


class KafkaLedger:
    """`clusters`: librdkafka properties by name, and `accesses` says the same for other clients; without one, markers
    that a broker forgot stay forgotten. `transaction_timeout_ms` is what lanes use as well; at most the broker's
    maximum.
    """

    def __init__(
        self,
        clusters: Mapping[str, Properties],
        receipts_topic: str,
        scope: str,
        transaction_timeout_ms: int = 60_000,
        accesses: Mapping[str, ClientAccess] = MappingProxyType({}),
    ) -> None:
        self._clusters, self._accesses = clusters, accesses
        self._topic = receipts_topic
        self._scope = scope
        self._transaction_timeout_ms = transaction_timeout_ms
        self._workers = ClusterWorkers("ledger", 16)
        self._lock, self._shutting_out = threading.Lock(), set[str]()
        self._unmarked: dict[str, int] = {}  # by recovery, how often in a row its markers could not be written

    async def read(self, effect: ReadLedger, moved: Callable[[], None] = lambda: None) -> LedgerRead:
        """Raises `ClusterProblem`; retriable when a transaction hides the end of the ledger for too long."""
        at = _Place()
        reading = asyncio.ensure_future(self._workers.of(effect.plan.target.cluster).run(self._read, effect, at))
        told = at.records
        try:
            while not (await asyncio.wait({reading}, timeout=_TELL_S))[0]:
                if at.records != told:
                    told = at.records
                    moved()
        finally:
            if not reading.done():
                reading.cancel()
        return reading.result()

    def _read(self, effect: ReadLedger, at: "_Place") -> LedgerRead:
        cluster = effect.plan.target.cluster
        if cluster not in self._clusters:
            raise ClusterProblem(f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False)
        properties = self._clusters[cluster]
        try:
            if effect.fence:
                with self._alone(effect.recovery):
                    self._fence(properties, effect)
                    self._write_markers(properties, effect, at)
            ledger = self._ledger(properties, effect, at)
        except ClusterProblem as silence:
            why = shut_out(properties, cluster) if silence.retriable else None
            if why is None:
                raise
            raise why from silence
        return LedgerRead(
            recovery=effect.recovery,
            attempt=effect.attempt,
            fenced=effect.fence,
            partitions=ledger.partitions,
            problems=ledger.problems,
            sequence=effect.sequence,
        )

    async def forget(self, effect: ForgetRecoveries) -> None:
        """Put tombstones on every receipt of these recoveries. Raises `ClusterProblem` when that can be tried again;
        what never can is left as it is.
        """
        await self._workers.of(effect.cluster).run(self._forget, effect)

    def _forget(self, effect: ForgetRecoveries) -> None:
        for ended in effect.recoveries:
            self._unmarked.pop(ended.id, None)
        properties = self._clusters.get(effect.cluster)
        if properties is None:
            return  # the config has no such cluster any more: nobody reads its receipts either
        by_partition: dict[tuple[str, int], list[EndedRecovery]] = {}
        for ended in effect.recoveries:
            if ended.receipts is not None:
                by_partition.setdefault((ended.receipts.topic, ended.receipts.partition), []).append(ended)
        try:
            for place, recoveries in by_partition.items():
                self._bury(properties, place, recoveries)
        except ClusterProblem as refused:
            if refused.retriable:
                raise
            _log.warning("receipts of ended recoveries stay on %s: %s", effect.cluster, refused.message)

    def _bury(self, properties: Properties, place: tuple[str, int], recoveries: list[EndedRecovery]) -> None:
        """One reading for all that end in the same partition, whose receipts lie between the oldest start and the end
        of now.
        """
        topic, partition = place
        admin = make_admin(properties)
        shape = describe(admin, [topic], _ASK_S)[topic]
        homes = {e.id: e.receipts for e in recoveries if e.receipts is not None}
        mine = {i: h for i, h in homes.items() if shape is not None and h.topic_id == shape.topic_id}
        if not mine:
            return  # the topic is gone, or another one
        start, stop = log_range(admin, topic, partition, _ASK_S)
        start = max(start, min(h.start for h in mine.values()))
        keys = self._keys(properties, (topic, partition), (start, stop), mine)
        # A reading may take long, and another daemon may have freed the id meanwhile: its receipts have the same keys.
        later = self._keys(properties, (topic, partition), (stop, log_range(admin, topic, partition, _ASK_S)[1]), mine)
        buried = [key for key, is_there in keys.items() if is_there and key not in later]
        if buried:
            self._put_tombstones(properties, (topic, partition), buried)

    def _keys(
        self, properties: Properties, place: tuple[str, int], bounds: tuple[int, int], recoveries: Collection[str]
    ) -> dict[bytes, bool]:
        """The keys of their receipts, and whether the last record of each is no tombstone."""
        scope, found = self._scope.encode(), dict[bytes, bool]()
        names = {name.encode() for name in recoveries}
        for message in read_range(properties, *place, bounds, _PATIENCE_S):
            key, value = pair_of(message)
            parts = (key or b"").split(b"/", 2)
            if key is not None and len(parts) == 3 and parts[0] == scope and parts[1].partition(b"#")[0] in names:
                found[key] = value is not None
        return found

    @staticmethod
    def _put_tombstones(properties: Properties, place: tuple[str, int], keys: list[bytes]) -> None:
        producer = make_producer(properties, _FORGET_MS)
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failed.append(error)

        for key in keys:
            while True:
                try:
                    producer.produce(place[0], None, key, place[1], on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(_POLL_S)
        left = producer.flush(_PATIENCE_S)
        if failed:
            raise problem(KafkaException(failed[0]), f"write to {place[0]}")
        if left:
            raise ClusterProblem(f"Could not write to {place[0]}: {left} records were not taken in time")

    @contextmanager
    def _alone(self, recovery: str) -> Iterator[None]:
        """A question is asked again when no answer came for a while. Fencing the lanes a second time would abort the
        markers that are written for the first, and with them what had landed.
        """
        with self._lock:
            if recovery in self._shutting_out:
                raise ClusterProblem(f"The lanes of {recovery} are being fenced already")
            self._shutting_out.add(recovery)
        try:
            yield
        finally:
            with self._lock:
                self._shutting_out.discard(recovery)

    def _fence(self, properties: Properties, effect: ReadLedger) -> None:
        ids = [transactional_id(self._scope, effect.recovery, lane) for lane in range(len(effect.plan.lanes))]
        if not ids:
            return
        with ThreadPoolExecutor(min(len(ids), _FENCERS), thread_name_prefix="fence") as pool:
            asked = [pool.submit(fence, properties, name, self._transaction_timeout_ms) for name in ids]
            try:
                for done in asked:
                    done.result()
            except ClusterProblem:
                pool.shutdown(wait=False, cancel_futures=True)  # a cluster that is away would hold up each of the rest
                raise

    def _write_markers(self, properties: Properties, effect: ReadLedger, at: "_Place") -> None:
        """What a broker forgot of the lanes' last chunks. Where that fails, all is looked through again, and after a
        few times this is no progress any more: nobody would give up what fails for ever.
        """
        access, home = self._accesses.get(effect.plan.target.cluster), effect.plan.receipts
        if access is None or home is None:
            return
        failed = self._unmarked.get(effect.recovery, 0)
        moved = at.move if failed < _LOOKS else _pass_over
        commits = LaneCommits(properties, access, self._scope, home, effect, moved)
        try:
            commits.write_missing(self._transaction_timeout_ms)
        except ClusterProblem:
            self._unmarked[effect.recovery] = failed + 1
            raise
        self._unmarked.pop(effect.recovery, None)

    def _ledger(self, properties: Properties, effect: ReadLedger, at: "_Place") -> LedgerSum:
        home = effect.plan.receipts
        topic = self._topic if home is None else home.topic
        admin = make_admin(properties)
        shape = describe(admin, [topic], _ASK_S)[topic]
        if shape is None:
            raise ClusterProblem(f"{topic} does not exist.", code=Code.OWN_TOPIC_MISSING, retriable=False)
        other = "" if home is None else made_again(home, shape.topic_id)
        if other:
            return nothing_found(effect.plan, other)
        partition = receipts_partition(effect.recovery, shape.partitions) if home is None else home.partition
        start, stop = log_range(admin, topic, partition, _ASK_S)
        if home is not None:
            wrong = misplaced(home, start, stop)
            if wrong:
                return nothing_found(effect.plan, wrong)
            start = home.start
        at.topic, at.partition = topic, partition
        short = self._behind_heads(properties, effect, at, (start, stop)) if home is not None else None
        if short is not None and not short.problems:
            return short
        at.offset = start
        running = self._as_it_comes(properties, effect, at, stop)
        if running is not None:
            return running
        at.offset = start
        values = self._values(properties, effect.recovery, at, stop)
        return add_up(self._receipts_of(effect.recovery, values), effect.plan, effect.positions)

    def _as_it_comes(self, properties: Properties, effect: ReadLedger, at: "_Place", stop: int) -> LedgerSum | None:
        """All receipts, of which none is held; None when they do not fit together, and have to be held to say why."""
        sums, prefix = RunningSum(effect.plan), key_prefix(self._scope, effect.recovery)
        for message in read_range(properties, at.topic, at.partition, (at.offset, stop), _PATIENCE_S):
            key, value = at.pair(message)
            if key is not None and key.startswith(prefix) and not sums.take(key, value):
                return None
        return sums.reaching(effect.positions)

    def _behind_heads(
        self, properties: Properties, effect: ReadLedger, at: "_Place", bounds: tuple[int, int]
    ) -> LedgerSum | None:
        """The ledger by the heads of all lanes and the receipts behind them; None when that does not work out, and all
        receipts must be read.
        """
        (start, stop), plan, heads = bounds, effect.plan, effect.ledger_from
        if not heads or len(heads) != len(plan.lanes) or not all(start < offset < stop for offset in heads):
            return None
        begin, values = stop, dict[bytes, bytes]()
        for partitions, offset in sorted(zip(plan.lanes, heads, strict=True), key=lambda lane: lane[1]):
            head = dict[bytes, bytes]()
            if is_at_end(plan, {p: effect.positions.get(p, 0) for p in partitions}):
                at.offset = offset
                head = self._values(properties, effect.recovery, at, offset + 1)
            if any(is_at_end(plan, positions) for positions in head_positions(head.values())):
                values |= head  # nothing of this lane follows
            else:  # it goes on, or ended with a newer head than the one that it told of
                begin = min(begin, offset)
        at.offset = begin
        values |= self._values(properties, effect.recovery, at, stop) if begin < stop else {}
        prefix = heads_prefix(self._scope, effect.recovery)
        known = from_heads({k: v for k, v in values.items() if k.startswith(prefix)}, effect.plan)
        if known is None:
            return None
        return add_up(self._receipts_of(effect.recovery, values), effect.plan, effect.positions, known)

    def _receipts_of(self, recovery: str, values: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        prefix = key_prefix(self._scope, recovery)
        return {key: value for key, value in values.items() if key.startswith(prefix)}

    def _values(self, properties: Properties, recovery: str, at: "_Place", stop: int) -> dict[bytes, bytes]:
        """Receipts and heads of the recovery between `at` and `stop`."""
        messages = read_range(properties, at.topic, at.partition, (at.offset, stop), _PATIENCE_S)
        prefixes = key_prefix(self._scope, recovery), heads_prefix(self._scope, recovery)
        return newest_values((at.pair(m) for m in messages), prefixes)


def fence(properties: Properties, name: str, transaction_timeout_ms: int) -> None:
    """End the open transaction of a transactional id and shut out whoever holds it. Raises `ClusterProblem`."""
    producer = make_transactional_producer(properties, name, transaction_timeout_ms)
    give_up_s = time.monotonic() + _FENCE_S
    while True:
        try:
            producer.init_transactions(max(give_up_s - time.monotonic(), 0.1))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() >= give_up_s:
                raise problem(error, f"fence {name}", other=name) from error
        else:
            producer.close()
            return


@dataclass(slots=True)
class _Place:
    """How far a reading has come. Written by its thread, looked at by the loop. `records` have been read, here and
    elsewhere: an offset would move also where a reading begins, and nothing comes.
    """

    topic: str = ""
    partition: int = 0
    offset: int = 0
    records: int = 0

    def pair(self, message: Message) -> tuple[bytes | None, bytes | None]:
        self.offset = message.offset() or 0
        self.move()
        return pair_of(message)

    def move(self) -> None:
        self.records += 1


def _pass_over() -> None:
    """A record that does not count."""
