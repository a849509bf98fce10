"""What large units, and many, cost on a real broker: the plan of one of many partitions by a daemon, compared with a
bare client that asks the same, and a look at how long the inputs of a thousand are kept.

The clock of a plan starts when the command is handed to the producer and stops when the status record says that it is
planned.
"""

import asyncio
import time
from contextlib import closing

from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded
from bench.daemon_process import DaemonProcess, Home, leading
from bench.records import settle
from bench.result import Report, Row, Sample, Series
from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.retention import KafkaRetention
from recoveryd.capabilities import make_decider
from recoveryd.collectors.retention import EVERY_S, RetentionCollector
from recoveryd.kernel.events import BecameLeader, Event
from recoveryd.kernel.state import CoreState
from recoveryd.params import params_beside
from recoveryd.recovery.params import Params
from recoveryd.units.model import Unit, UnitKind

NAME = "large_units"
_TOPICS, _PARTITIONS = 50, 5_000
_WATCHED = 1_000
_PLAN_S = 3.0
_CORE_SHARE = 0.03
_SMALL = {"segment.index.bytes": "1024"}  # each partition maps its index into memory
_UNIT = "large"
_PIECE = 500
_DEADLINE_S = 120.0
_POLL_S = 0.02
_BETWEEN_S = 0.2  # a broker that is busy with new partitions is late with its heartbeats, and is taken for dead
_DAY_MS = 86_400_000


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    scale = 10 if quick else 1
    home = Home(bed, "large-units")
    each = _PARTITIONS // _TOPICS
    topics = [bed.unique("large") for _ in range(_TOPICS // scale)]
    for topic in topics:
        bed.create(topic, each, _SMALL)
        settle(_BETWEEN_S)
    keys = [TopicPartition(topic, p, 0) for topic in topics for p in range(each)]
    _commit(bed, keys)
    found = Series("s")
    unit = {"kind": "group", "group": _UNIT, "inputs": topics, "outputs": {}, "stateful": False}
    with leading(home, {"units": {_UNIT: unit}}) as daemon:
        writer = ControlWriter(bed.bootstrap, home.names.control)
        for _ in range(repeat):
            found.add("bare", _ask(bed, topics, keys))
            found.add("plan", _plan(bed, daemon, writer, len(keys)))
    bed.delete(*topics)
    watched = _WATCHED // scale
    rows = (
        Row(
            f"plan of a unit with {len(topics)} topics, {len(keys):,} partitions", found.sample("plan"),
            "a bare client that asks the same", found.sample("bare"), at_most=_PLAN_S,
        ),
        Row(
            f"{watched:,} units of a topic each looked at, every {EVERY_S:.0f} s, CPU", _watch(bed, watched, repeat),
            at_most=EVERY_S * _CORE_SHARE,
        ),
    )  # fmt: skip
    return [Report("Large units, and many, on a broker", rows)]


def _commit(bed: Bed, keys: list[TopicPartition]) -> None:
    with closing(Consumer({"bootstrap.servers": bed.bootstrap, "group.id": _UNIT})) as consumer:
        for at in range(0, len(keys), _PIECE):
            consumer.commit(offsets=keys[at : at + _PIECE], asynchronous=False)


def _plan(bed: Bed, daemon: DaemonProcess, writer: ControlWriter, partitions: int) -> float:
    run = bed.unique("large-plan")
    began_s = time.monotonic()
    writer.send([encoded(command("reprocess", run, {"unit": _UNIT, "dry_run": True}))])
    while (status := daemon.status(run)) is None or status["state"] != "planned":
        if time.monotonic() - began_s > _DEADLINE_S or (status is not None and status["state"] == "rejected"):
            raise RuntimeError(f"{run} is not planned: {status and status['why']}")
        time.sleep(_POLL_S)
    seconds = time.monotonic() - began_s
    offsets = sum(change["what"] == "offset" for change in status["plan"]["changes"])
    if offsets != partitions:
        raise RuntimeError(f"the plan has {offsets:,} offsets and not {partitions:,}")
    return seconds


def _ask(bed: Bed, topics: list[str], keys: list[TopicPartition]) -> float:
    """Seconds that it takes to describe the topics and to read configs, both ends, and what the group committed."""
    began_s = time.monotonic()
    admin = AdminClient({"bootstrap.servers": bed.bootstrap})
    answers = [
        *admin.describe_topics(TopicCollection(topics), request_timeout=_DEADLINE_S).values(),
        *admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics]).values(),
    ]
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        asked = {TopicPartition(key.topic, key.partition): spec for key in keys}
        answers += admin.list_offsets(asked, request_timeout=_DEADLINE_S).values()
    for answer in answers:
        answer.result(_DEADLINE_S)
    with closing(Consumer({"bootstrap.servers": bed.bootstrap, "group.id": _UNIT})) as consumer:
        for at in range(0, len(keys), _PIECE):
            consumer.committed([TopicPartition(k.topic, k.partition) for k in keys[at : at + _PIECE]], _DEADLINE_S)
    return time.monotonic() - began_s


def _watch(bed: Bed, count: int, repeat: int) -> Sample:
    """CPU seconds of a look at all of them, with what the core makes of it. Every second is kept too short."""
    units = {}
    for number in range(count):
        topic = bed.unique("watched")
        days = 1 + number % 2
        bed.create(topic, 1, {**_SMALL, "retention.ms": str(days * _DAY_MS)})
        units[topic] = Unit(topic, UnitKind.GROUP, "main", topic, (topic,), retention_objective_ms=3 * _DAY_MS // 2)
    taken = asyncio.run(_looks(bed, units, repeat))
    for at in range(0, count, _PIECE):
        bed.delete(*list(units)[at : at + _PIECE])
    return Sample(tuple(taken), "s")


async def _looks(bed: Bed, units: dict[str, Unit], repeat: int) -> list[float]:
    core = make_decider(params_beside(Params(units=units)))
    state = core.decide(CoreState(), BecameLeader(1, "control"), _now_ms()).state
    told = 0

    def hear(event: Event) -> None:
        nonlocal state, told
        decision = core.decide(state, event, _now_ms())
        state = decision.state
        told += len(decision.notices)

    retention = KafkaRetention({"main": {"bootstrap.servers": bed.bootstrap}})
    collector = RetentionCollector(units.values, retention, hear, lambda: True, SystemClock())
    taken = []
    for _ in range(repeat):
        began_s = time.process_time()
        await collector.collect()
        taken.append(time.process_time() - began_s)
    await collector.close()
    if told != len(units) // 2:
        raise RuntimeError(f"{told} units of {len(units) // 2} were told of")
    return taken


def _now_ms() -> int:
    return int(time.time() * 1_000)
