"""What the receipts of a recovery claim, for the proof, which checks every claim.

Shares no code with `recoveryd_jobs.receipts`, which the lanes use: the ledger is read a second time, from scratch. It
is kept in a private SQLite file (`disk`), so a million receipts cost disk and not memory.
Claims are not trusted; those that contradict each other become differences.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.contract import DIGEST_FORM, JobSpec, copy_client_id, receipts_partition
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.sound_logs import is_harmless
from recoveryd_jobs.topics import Topic
from recoveryd_jobs.verify.disk import in_steps, open_database
from recoveryd_jobs.verify.plan import check_topics, explain_silence

_BATCH = 1000
_CACHE_KB = 16_384
_ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what a record that is no receipt raises
_RUN = 5  # columns
_TABLES = """
    CREATE TABLE raw (p INT, start INT, value BLOB, PRIMARY KEY (p, start)) WITHOUT ROWID;
    CREATE TABLE claim (p INT, start INT, stop INT, copied INT, filtered INT, skipped INT, lost INT,
        PRIMARY KEY (p, start)) WITHOUT ROWID;
    CREATE TABLE target (p INT, t INT, start INT, count INT, digest BLOB, PRIMARY KEY (p, start, t)) WITHOUT ROWID;
    CREATE TABLE run (t INT, first INT, count INT, p INT, start INT, PRIMARY KEY (t, first, p, start)) WITHOUT ROWID;
"""


class ReceiptClaim(NamedTuple):
    """What one receipt says about its range of the source partition."""

    start: int
    stop: int
    copied: int
    filtered: int
    skipped: int
    lost: int


class ClaimedRun(NamedTuple):
    """A claim that `records` records of a target partition, from offset `first` on, are those of the receipt of source
    partition `source` that begins at `start`.
    """

    first: int
    records: int
    source: int
    start: int


class ClaimedDigest(NamedTuple):
    """`digest` b"" = none, or one of another release's form."""

    records: int
    digest: bytes


class ProofLedger:
    """The claims of some source partitions. Not thread-safe."""

    def __init__(self) -> None:
        self._db = open_database(_CACHE_KB, _TABLES)

    def close(self) -> None:
        self._db.close()

    def put(self, partition: int, start: int, value: bytes | None) -> None:
        """Keep the newest record of a key; None deletes the receipt."""
        if value is None:
            self._db.execute("DELETE FROM raw WHERE p=? AND start=?", (partition, start))
        else:
            self._db.execute("INSERT OR REPLACE INTO raw VALUES (?,?,?)", (partition, start, value))

    def in_steps(self, step: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `step` while queries go on, of which there may be millions. It may raise; close the ledger then."""
        return in_steps(self._db, step)

    def settle(self, step: Callable[[], object] = lambda: None) -> None:
        """Take all records apart once they are in, with `step` in between, which may raise. Each batch makes room for
        what comes of it. Raises JobError `ledger_broken` for one that is not a receipt.
        """
        some = "SELECT p, start, value FROM raw ORDER BY p, start LIMIT ?"
        self._db.execute("BEGIN")
        while rows := self._db.execute(some, (_BATCH,)).fetchall():
            step()
            for partition, start, value in rows:
                try:
                    self._take_apart(json.loads(value))
                except (*_ODD, sqlite3.IntegrityError) as error:
                    raise JobError(
                        "ledger_broken", f"The receipt of partition {partition} at {start} cannot be read: {error!r}."
                    ) from None
            self._db.executemany("DELETE FROM raw WHERE p=? AND start=?", [row[:2] for row in rows])
        self._db.execute("COMMIT")
        self._db.execute("DROP TABLE raw")

    def _take_apart(self, r: Any) -> None:
        key = _number(r["partition"]), _number(r["start"])
        numbers = [_number(r[name]) for name in ("stop", "copied", "filtered", "skipped", "lost")]
        self._db.execute("INSERT INTO claim VALUES (?,?,?,?,?,?,?)", (*key, *numbers))
        for target in r.get("targets") or ():
            is_known = target.get("digest_form", 1) == DIGEST_FORM
            to, digest = _number(target["partition"]), bytes.fromhex(target.get("digest") or "") if is_known else b""
            count, runs = _number(target["count"]), [(to, *map(_number, run), *key) for run in target["runs"]]
            if any(len(run) != _RUN for run in runs):
                raise ValueError(f"a run of partition {to} is not an offset and a count")
            self._db.execute("INSERT INTO target VALUES (?,?,?,?,?)", (key[0], to, key[1], count, digest))
            self._db.executemany("INSERT INTO run VALUES (?,?,?,?,?)", runs)

    def claims(self, partition: int) -> Iterator[ReceiptClaim]:
        """In order of their start."""
        found = "SELECT start, stop, copied, filtered, skipped, lost FROM claim WHERE p=? ORDER BY start"
        return map(ReceiptClaim._make, self._db.execute(found, (partition,)))

    def claim(self, partition: int, start: int) -> ReceiptClaim | None:
        found = "SELECT start, stop, copied, filtered, skipped, lost FROM claim WHERE p=? AND start=?"
        row = self._db.execute(found, (partition, start)).fetchone()
        return None if row is None else ReceiptClaim._make(row)

    def runs(self, target: int) -> Iterator[ClaimedRun]:
        """All claimed runs of a target partition in order of their first offset."""
        return map(
            ClaimedRun._make,
            self._db.execute("SELECT first, count, p, start FROM run WHERE t=? ORDER BY first, p, start", (target,)),
        )

    def runs_of(self, target: int, partition: int, start: int) -> Iterator[ClaimedRun]:
        """The runs of one receipt in a target partition, in order."""
        found = "SELECT first, count, p, start FROM run WHERE t=? AND p=? AND start=? ORDER BY first"
        return map(ClaimedRun._make, self._db.execute(found, (target, partition, start)))

    def held(self, target: int, partition: int, start: int) -> int:
        """How many records the runs of one receipt in a target partition hold."""
        found = "SELECT coalesce(sum(count), 0) FROM run WHERE t=? AND p=? AND start=?"
        return int(self._db.execute(found, (target, partition, start)).fetchone()[0])

    def digest(self, partition: int, target: int, start: int) -> ClaimedDigest | None:
        found = "SELECT count, digest FROM target WHERE p=? AND t=? AND start=?"
        row = self._db.execute(found, (partition, target, start)).fetchone()
        return None if row is None else ClaimedDigest._make(row)

    def sent(self, partition: int, start: int) -> tuple[int, int]:
        """(records that a receipt says it sent to the target, records that its runs add up to)."""
        key = partition, start
        (said,) = self._db.execute("SELECT coalesce(sum(count), 0) FROM target WHERE p=? AND start=?", key).fetchone()
        (held,) = self._db.execute("SELECT coalesce(sum(count), 0) FROM run WHERE p=? AND start=?", key).fetchone()
        return int(said), int(held)

    def claims_outside(self, targets: Iterable[int]) -> Iterator[tuple[int, int, int, int]]:
        """(source partition, start of the receipt, target partition, records) of claims of other target partitions."""
        named = {t for (t,) in self._db.execute("SELECT DISTINCT t FROM target")}
        found = "SELECT p, start, t, count FROM target WHERE t=? ORDER BY p, start"
        for target in sorted(named.difference(targets)):
            yield from self._db.execute(found, (target,))

    def partitions(self) -> set[int]:
        """Source partitions that have receipts."""
        return {p for (p,) in self._db.execute("SELECT DISTINCT p FROM claim")}

    def calls_lost(self, partition: int, start: int, stop: int, log_start: int) -> bool:
        """Whether receipts call all of [start, stop) lost, which is the end of what they cover.

        They say how much they lost and not where, so what is gone before `log_start` is taken for lost first.
        """
        found = "SELECT start, stop, lost FROM claim WHERE p=? AND stop>? ORDER BY start"
        at = start
        for first, end, lost in self._db.execute(found, (partition, start)):
            if first <= at and lost - max(0, log_start - first) >= end - max(first, start):
                at = max(at, end)
        return at >= stop

    def position(self, partition: int) -> int | None:
        """Where the last receipt of a source partition ends."""
        found = self._db.execute("SELECT max(stop) FROM claim WHERE p=?", (partition,)).fetchone()[0]
        return None if found is None else int(found)

    def index(self) -> None:
        """Make the index for queries by source partition and start."""
        self._db.execute("CREATE INDEX run_by_source ON run (p, start)")


def _number(value: object) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.100} is not a number of a receipt")
    return value


def load(
    spec: JobSpec,
    wanted: Callable[[int], bool],
    waiting: Callable[[], object] = lambda: None,
    took: Callable[[int], object] = lambda _size: None,
    step: Callable[[], object] = lambda: None,
) -> ProofLedger:
    """All committed receipts of the source partitions that are `wanted`, the newest of each key; empty when the copy
    has no receipts.

    `waiting` is called between batches that are read, and `step` while they are taken apart; both may raise. `took` is
    told the bytes of each batch. The client has the name of the copy, so that its broker quota holds here too. Raises
    JobError when the topic cannot be read to its end in time: as long as lanes wait for other producers' transactions,
    this does too. `ledger_broken` when the topic is another one now, was cut back, or lacks receipts of what is known
    to be copied: what is left proves nothing.
    """
    ledger = ProofLedger()
    try:
        if spec.receipts_topic:
            with errors.naming_side("target"):
                _read(spec, wanted, ledger, waiting, took)
            _check_home(spec)
        with ledger.in_steps(step):
            ledger.settle(step)
            _check_reached(spec, wanted, ledger)
            ledger.index()
    except BaseException:
        ledger.close()
        raise
    return ledger


def _read(
    spec: JobSpec,
    wanted: Callable[[int], bool],
    ledger: ProofLedger,
    waiting: Callable[[], object],
    took: Callable[[int], object],
) -> None:
    client_id = copy_client_id(spec.scope, spec.recovery)
    reader = make_reader(spec.target.client, client_id, 4 * 1024 * 1024, fetch_wait_ms=QUICK_FETCH_WAIT_MS)
    try:
        meet(reader, spec.receipts_topic)
        if spec.receipts is not None:
            home = TopicPartition(spec.receipts.topic, spec.receipts.partition, spec.receipts.start)
        else:
            count = len(reader.list_topics(spec.receipts_topic, timeout=30.0).topics[spec.receipts_topic].partitions)
            home = TopicPartition(spec.receipts_topic, receipts_partition(spec.recovery, count), OFFSET_BEGINNING)
        end = _high_watermark(spec, client_id, home)
        reader.assign([home])
        position, silent_s = 0, 0.0
        while position < end:
            waiting()
            size, before, asked_s = 0, position, time.monotonic()  # time spent in `waiting` is no silence of the topic
            for message in reader.consume(_BATCH, 0) or reader.consume(1, 0.2):
                if (error := message.error()) is None:
                    _keep(spec, message, wanted, ledger)
                    position = (message.offset() or 0) + 1
                    size += len(message.key() or b"") + len(message.value() or b"")
                else:
                    left = TopicPartition(home.topic, home.partition, position or home.offset)
                    position = max(position, _after(message, error, spec, client_id, left, end))
            silent_s = 0.0 if position > before else silent_s + time.monotonic() - asked_s
            if size:
                took(size)
            if silent_s > spec.stop_wait_ms / 1000.0:
                raise _silence(spec, home, position, end)
    finally:
        reader.close()


def _after(message: Message, error: KafkaError, spec: JobSpec, client_id: str, left: TopicPartition, end: int) -> int:
    """The position after an event that is no record; 0 = it did not move. Raises JobError."""
    if error.code() == errors.END:
        return message.offset() or 0
    if is_harmless(message, spec.target.client, client_id, left, end):
        return end
    if error.code() in errors.OUT_OF_RANGE:
        why = f"{left.topic} partition {left.partition} holds nothing at {left.offset} any more"
        raise JobError("ledger_broken", f"{why}: receipts of this recovery were deleted.")
    if (final := errors.unreadable(error, "target", message)) is not None:
        raise final
    return 0


def _topic(spec: JobSpec) -> Topic:
    topic_id = "" if spec.receipts is None else spec.receipts.topic_id
    place = replace(spec.target, topic=spec.receipts_topic, topic_id=topic_id)
    return Topic(place, "receipts", f"recoveryd.{spec.recovery}.verifier", "ledger_broken")


def _check_home(spec: JobSpec) -> None:
    """Ask for the topic's id after the receipts were read, which proves that they came from the planned topic."""
    if spec.receipts is not None:
        check_topics((_topic(spec),))


def _check_reached(spec: JobSpec, wanted: Callable[[int], bool], ledger: ProofLedger) -> None:
    for planned in (r for lane in spec.lanes for r in lane.partitions if wanted(r.partition)):
        position = ledger.position(planned.partition) or planned.start
        if position < planned.journaled:
            why = f"end at {position}, but it was copied to {planned.journaled}: some are gone"
            raise JobError("ledger_broken", f"Receipts of partition {planned.partition} {why}.")


def _silence(spec: JobSpec, home: TopicPartition, position: int, end: int) -> JobError:
    found = explain_silence(_topic(spec), home.partition, position, end)
    return JobError("ledger_broken", found.message) if found.code == "data_lost" else found


def _high_watermark(spec: JobSpec, client_id: str, home: TopicPartition) -> int:
    """The end of the log, open transactions included: a committed reader would stop before another producer's open one,
    and miss what is after it.
    """
    reader = make_reader(spec.target.client, client_id, 1024 * 1024, isolation="read_uncommitted")
    try:
        found = reader.get_watermark_offsets(TopicPartition(home.topic, home.partition), timeout=30.0, cached=False)
    finally:
        reader.close()
    if found is None:
        raise JobError("target_unavailable", f"The end of {spec.receipts_topic} is unknown: no answer.")
    end = int(found[1])
    if end < home.offset:
        where = f"{home.topic} partition {home.partition}"
        raise JobError("ledger_broken", f"{where} was cut back: it ends at {end}, and at {home.offset} when planned.")
    return end


def _keep(spec: JobSpec, message: Message, wanted: Callable[[int], bool], ledger: ProofLedger) -> None:
    key, value = message.key(), message.value()
    scope, _, rest = (key or b"").decode("utf-8", "replace").partition("/")
    if scope != spec.scope or not rest.startswith(f"{spec.recovery}/"):
        return
    with contextlib.suppress(ValueError):  # another record kept under the recovery's name
        partition, start = map(int, rest[len(spec.recovery) + 1 :].split("/"))
        if wanted(partition):
            ledger.put(partition, start, value)
