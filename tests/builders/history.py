"""Hand-made copies for testing the history checker: source, target and receipts written by a small correct copier,
which can be told to do one thing wrong.

The copier works like a lane (one transaction per chunk, receipts in it) but shares no code with the product. `Damage`
changes what is written to the target or what receipts say; everything else is written as by a lane that does not know
of the damage.
"""

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd_sandbox.topics import make_topics
from tests.e2e.clients import client, met
from tests.e2e.log_reader import QUIET, Header, Record
from tests.e2e.murmur2 import partition_of

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be written: where, and with what content."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    time_ms: int = 1_700_000_000_000


Chunk = list[Draft]
Said = dict[str, Any]  # a receipt as JSON


@dataclass(frozen=True, slots=True)
class Damage:
    """`records(chunk number, drafts)` returns what is really written, `receipts(chunk number, receipts)` the receipts
    for it. If `between(chunk number)` is true, the transaction is split after the first half.
    """

    records: Callable[[int, Chunk], Chunk] = lambda _, drafts: drafts
    receipts: Callable[[int, list[Said]], list[Said]] = lambda _, said: said
    between: Callable[[int], None] | None = None
    # Number of a chunk that is written and aborted first; its receipt claims the aborted offsets.
    aborted_first: int | None = None


NO_DAMAGE = Damage()


@dataclass(slots=True)
class HandMade:
    """Topics of one hand-made copy on a real broker."""

    bootstrap: str
    source: str
    target: str
    receipts: str
    recovery: str
    mapping: str = "same"
    target_partitions: int = 2
    chunk_records: int = 5
    image: Callable[[Draft], Draft] = lambda draft: draft
    selects: Callable[[Record], bool] = lambda _: True
    _acked: list[tuple[int, int]] = field(default_factory=list)

    def create(self) -> None:
        create_topics(self.bootstrap, {self.target: self.target_partitions})

    def copy(
        self, source: Mapping[int, Sequence[Record]], ranges: Mapping[int, tuple[int, int]], damage: Damage = NO_DAMAGE
    ) -> None:
        """Copies `source` (visible records) within `ranges`, chunk by chunk, partitions one after the other, all in
        lane 0.
        """
        producer = transactional(self.bootstrap, f"{self.recovery}-lane")
        number = 0
        for partition, (start, stop) in sorted(ranges.items()):
            at = start
            while at < stop:
                end = min(stop, at + self.chunk_records)
                number += 1
                visible = [r for r in source.get(partition, ()) if at <= r.offset < end]
                self._write_chunk(producer, number, partition, (at, end), visible, damage)
                at = end
        producer.flush(_TIMEOUT_S)

    def _write_chunk(
        self,
        producer: Producer,
        number: int,
        partition: int,
        span: tuple[int, int],
        visible: Sequence[Record],
        damage: Damage,
    ) -> None:
        chosen = [r for r in visible if self.selects(r)]
        honest = [self._draft_of(r) for r in chosen]
        written = damage.records(number, list(honest))
        self._acked = []
        claimed: list[tuple[int, int]] | None = None
        if damage.aborted_first == number:
            producer.begin_transaction()
            claimed = self._produce(producer, written)
            producer.abort_transaction(_TIMEOUT_S)
        producer.begin_transaction()
        half = len(written) // 2 if damage.between is not None else len(written)
        acked = self._produce(producer, written[:half])
        if damage.between is not None:
            producer.commit_transaction(_TIMEOUT_S)
            damage.between(number)
            producer.begin_transaction()
            acked += self._produce(producer, written[half:])
        counts = {
            "copied": len(chosen),
            "filtered": len(visible) - len(chosen),
            "skipped": span[1] - span[0] - len(visible),
            "lost": 0,
        }
        said = self._receipt(number, partition, span, counts, claimed or acked, honest)
        for receipt in damage.receipts(number, [said]):
            key = f"{receipt['scope']}/{receipt['recovery']}/{receipt['partition']}/{receipt['start']}"
            place = zlib.crc32(self.recovery.encode()) % 2
            producer.produce(self.receipts, json.dumps(receipt).encode(), key.encode(), partition=place)
        producer.commit_transaction(_TIMEOUT_S)

    def _draft_of(self, record: Record) -> Draft:
        partition = (
            record.partition if self.mapping == "same" else partition_of(record.key or b"", self.target_partitions)
        )
        return self.image(Draft(partition, record.key, record.value, record.headers, record.time_ms))

    def _produce(self, producer: Producer, drafts: Iterable[Draft]) -> list[tuple[int, int]]:
        acked: list[tuple[int, int]] = []
        for draft in drafts:
            produce(producer, self.target, draft, lambda _, m: acked.append((m.partition(), m.offset())))
        producer.flush(_TIMEOUT_S)
        return sorted(acked)

    def _receipt(
        self,
        number: int,
        partition: int,
        span: tuple[int, int],
        counts: Mapping[str, int],
        acked: Sequence[tuple[int, int]],
        honest: Chunk,
    ) -> Said:
        """The receipt of a lane that does not know of the damage: as many records per target partition as it meant to
        write, in one run from the first offset it got.
        """
        targets = []
        for target in sorted({d.partition for d in honest}):
            meant = sum(1 for d in honest if d.partition == target)
            got = [offset for p, offset in acked if p == target]
            targets.append({"partition": target, "count": meant, "runs": _runs(got, meant), "digest": ""})
        return {
            "scope": "test", "recovery": self.recovery, "lane": 0, "attempt": 1, "chunk": number, "partition": partition,
            "start": span[0], "stop": span[1], **counts, "bytes": 0, "targets": targets, "version": 1,
        }  # fmt: skip


def _runs(offsets: Sequence[int], meant: int) -> list[list[int]]:
    runs: list[list[int]] = []
    for offset in offsets[:meant]:
        if runs and runs[-1][0] + runs[-1][1] == offset:
            runs[-1][1] += 1
        else:
            runs.append([offset, 1])
    short = meant - sum(count for _, count in runs)
    if runs:
        runs[-1][1] += short
    return runs


def create_topics(bootstrap: str, partitions: Mapping[str, int], configs: Mapping[str, str] | None = None) -> None:
    """Topics that keep everything. Raises the broker's errors."""
    admin = AdminClient(client(bootstrap))
    config = {"retention.ms": "-1", **(configs or {})}
    topics = [NewTopic(name, count, -1, config=config) for name, count in partitions.items()]
    make_topics(admin, topics, _TIMEOUT_S)
    give_up_at_s = time.monotonic() + 2 * _TIMEOUT_S
    while not all(_is_led(admin, name, count) for name, count in partitions.items()):
        assert time.monotonic() < give_up_at_s, f"{sorted(partitions)} are not there"
        time.sleep(0.02)


def _is_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Whether the broker knows a leader of each partition: it hears of a new topic a moment later."""
    found = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    return len(found) == partitions and all(p.leader >= 0 for p in found.values())


def transactional(bootstrap: str, transactional_id: str, **settings: Any) -> Producer:
    """Its transactions stay open for as long as a test on a busy machine may need."""
    patient = {"transaction.timeout.ms": 600_000, "linger.ms": 5}
    config = {**client(bootstrap), **QUIET, **patient, "transactional.id": transactional_id, **settings}
    producer = met(Producer(config))
    producer.init_transactions(_TIMEOUT_S)
    return producer


def produce(
    producer: Producer, topic: str, draft: Draft, on_delivery: Callable[[Any, Any], None] | None = None
) -> None:
    """Writes all drafts. librdkafka cannot write time 0 (it means "now" there), so it is refused here."""
    if draft.time_ms == 0:
        raise ValueError("librdkafka cannot write time 0")
    extras: dict[str, Any] = {"headers": list(draft.headers)} if draft.headers else {}
    if on_delivery is not None:
        extras["on_delivery"] = on_delivery
    while True:
        try:
            producer.produce(
                topic, draft.value, draft.key, partition=draft.partition, timestamp=draft.time_ms, **extras
            )
        except BufferError:
            producer.poll(0.1)
        else:
            return


def with_fields(**changes: Any) -> Callable[[Draft], Draft]:
    """A damage of one draft: `with_fields(time_ms=5)(draft)`."""
    return lambda draft: replace(draft, **changes)
