"""How much memory a daemon needs, idle and with known recoveries, and how long its start takes on a status topic that
holds ten thousand of them.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.bed import Bed
from bench.cpu import resident_bytes
from bench.daemon_process import Home, leading
from bench.recoveries import completed
from bench.result import Report, Row, Sample
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.capabilities import make_codec, make_status_topic
from recoveryd.recovery.params import Params
from recoveryd.settings.kafka_properties import ClientAccess

NAME = "daemon-size"
_KNOWN, _MANY, _ENDED = 200, 10_000, 100_000
_SAME = 1.1
# The topic's own settings, with its hours replaced by seconds.
_COMPACT = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "1000",
}
_COMPACTED_S = 300.0
_NEWEST = 20  # records that close segments
_IDLE_MB, _FOLD_S = 150.0, 5.0
_IDLE_S = 5.0
_WAITING = 50_000
_DEADLINE_S = 60.0
_ROOT = Path(__file__).resolve().parents[1]
_IMPORTS = (
    "import recoveryd.__main__, recoveryd.app.serve, faust, confluent_kafka, aiohttp, pydantic, structlog; import os;"
    "print(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])"
)


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    many = _MANY // 10 if quick else _MANY
    ended, kept = (_ENDED // 20 if quick else _ENDED), Params().keep_terminal_most
    empty, known, full = Home(bed, "empty"), Home(bed, "known"), Home(bed, "full")
    _fill(bed, known, _KNOWN)
    _fill(bed, full, many)
    idle, empty_s = _sizes(empty, repeat)
    with_known, _ = _sizes(known, repeat)
    with_many, full_s = _sizes(full, repeat)
    years = Home(bed, "years")
    _hurry(bed, years)
    _fill(bed, years, ended, kept)
    _await_compacted(bed, years, kept)
    forgotten, forgotten_s = _sizes(years, repeat)
    last_week = Home(bed, "week")
    _fill(bed, last_week, kept)
    week, week_s = _sizes(last_week, repeat)
    imports = Sample(tuple(_imports_mb() for _ in range(repeat)), "MB")
    fold, plain = _fold(bed, full, many, repeat), _plain_read(bed, full, many, repeat)
    rows = (
        Row("memory of a leading, idle daemon", idle, "its imports alone", imports, at_most=_IDLE_MB),
        Row(f"memory with {_KNOWN} recoveries known", with_known, "idle", idle),
        Row(f"memory with {many:,} recoveries known", with_many, "idle", idle),
        Row(
            f"fence and fold a status topic of {many:,} recoveries",
            fold,
            "consume and json.loads",
            plain,
            at_most=_FOLD_S,
        ),
        Row(f"process start to leading with {many:,} recoveries", full_s, "with none", empty_s),
        Row(
            f"memory after {ended:,} ended, all but {kept:,} forgotten",
            forgotten,
            f"{kept:,} ended",
            week,
            ratio_at_most=_SAME,
        ),
        Row(
            f"process start to leading after {ended:,} ended",
            forgotten_s,
            f"{kept:,} ended",
            week_s,
            ratio_at_most=_SAME,
        ),
    )
    note = "memory is resident (VmRSS), five seconds after the daemon began to lead"
    years_note = (
        "what a daemon that forgets leaves on the status topic after so many, once the broker has compacted it "
        "twice: first records go, then their tombstones"
    )
    return [Report("Size and start of the daemon", rows, (note, years_note))]


def _fill(bed: Bed, home: Home, count: int, kept: int | None = None) -> None:
    """Write the records that a daemon would have left; with `kept`, those of one that keeps the newest `kept`, and a
    tombstone of each that it forgot.
    """
    producer = Producer({"bootstrap.servers": bed.bootstrap, "linger.ms": 20})
    made, status = completed(count), make_status_topic()
    for number, recovery in enumerate(made):
        key, value = status.encode(recovery)
        producer.produce(home.names.status, value, key)
        if kept is not None and number >= kept:
            producer.produce(home.names.status, None, made[number - kept].id)
        if len(producer) > _WAITING:
            producer.flush(_DEADLINE_S)
    if producer.flush(_DEADLINE_S):
        raise RuntimeError("the status topic could not be filled")


def _hurry(bed: Bed, home: Home) -> None:
    """Call it before the first record: a tombstone keeps the deletion time that it was given when it was first
    compacted.
    """
    entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in _COMPACT.items()]
    resource = ConfigResource(ResourceType.TOPIC, home.names.status, incremental_configs=entries)
    bed.admin.incremental_alter_configs([resource])[resource].result(_DEADLINE_S)


def _await_compacted(bed: Bed, home: Home, kept: int) -> None:
    """Returns when the broker has compacted away everything but the newest `kept`."""
    producer = Producer({"bootstrap.servers": bed.bootstrap})
    give_up_s = time.monotonic() + _COMPACTED_S
    while producer.flush(_DEADLINE_S) or len(_read(bed, home)) > kept + _NEWEST:
        if time.monotonic() > give_up_s:
            raise RuntimeError("the status topic was not compacted")
        time.sleep(1.0)
        producer.produce(home.names.status, None, "nobody")  # closes the segment before it


def _sizes(home: Home, starts: int) -> tuple[Sample, Sample]:
    """Resident MB, and seconds from process start to leading."""
    sizes, seconds = [], []
    for _ in range(starts):
        with leading(home) as daemon:
            seconds.append(daemon.ready_s - daemon.started_s)
            time.sleep(_IDLE_S)
            sizes.append(resident_bytes(daemon.pid) / 1e6)
    return Sample(tuple(sizes), "MB"), Sample(tuple(seconds), "s")


def _imports_mb() -> float:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], capture_output=True, text=True, timeout=60, check=True, cwd=_ROOT
    )
    return int(done.stdout.split()[-1]) * 1024 / 1e6


def _fold(bed: Bed, home: Home, count: int, repeat: int) -> Sample:
    """The first step of a new leader: `open` of the journal, without closing the producer."""

    async def once() -> float:
        journal = KafkaJournal(
            {"bootstrap.servers": bed.bootstrap},
            home.names,
            home.scope,
            make_status_topic(),
            make_codec(),
            lambda: time.time_ns() // 1_000_000,
            lambda: ClientAccess(bed.bootstrap),
        )
        began_s = time.monotonic()
        folded = await journal.open()
        elapsed_s = time.monotonic() - began_s
        await journal.close()
        if len(folded.nouns) != count:
            raise RuntimeError(f"{len(folded.nouns)} of {count} recoveries were folded")
        return elapsed_s

    return Sample(tuple(asyncio.run(once()) for _ in range(repeat)), "s")


def _plain_read(bed: Bed, home: Home, count: int, repeat: int) -> Sample:
    """The same records read into plain dicts."""
    found = []
    for _ in range(repeat):
        began_s = time.monotonic()
        documents = {key: json.loads(value or b"null") for key, value in _read(bed, home)}
        found.append(time.monotonic() - began_s)
        if len(documents) < count:
            raise RuntimeError(f"{len(documents)} of {count} records were read")
    return Sample(tuple(found), "s")


def _read(bed: Bed, home: Home) -> list[tuple[bytes | None, bytes | None]]:
    """The records of the status topic."""
    end, position, found = bed.ends(home.names.status, 1)[0], 0, []
    consumer = Consumer({
        "bootstrap.servers": bed.bootstrap, "group.id": "bench-fold", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 10,
    })  # fmt: skip
    consumer.list_topics(
        home.names.status, timeout=_DEADLINE_S
    )  # an assignment before that waits for a timer of librdkafka
    consumer.assign([TopicPartition(home.names.status, 0, 0)])
    while position < end:
        for message in consumer.consume(10_000, 0.05):
            if message.error() is None:
                found.append((message.key(), message.value()))
            position = max(position, (message.offset() or 0) + (message.error() is None))
    consumer.close()
    return found
