"""A consumer group of many partitions set back and put back by command, compared with a bare client that commits the
same offsets and reads them again.

The clock starts when the command is handed to the producer and stops when the status record says that it is over.
"""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample, Series
from recoveryd.adapters.kafka.steps.offset_steps import COMMIT_S

NAME = "resets"
_GOAL_S = 5.0
_TOPICS, _EACH = 10, 1_000
_QUICK_EACH = 20
_PIECE = 500
_DEADLINE_S = 120.0
_POLL_S = 0.1
_RECORD = "largest status record"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    each = _QUICK_EACH if quick else _EACH
    topics = [bed.unique("reset") for _ in range(_TOPICS)]
    for topic in topics:
        bed.create(topic, each, {"segment.index.bytes": "1024"})
    keys = [(topic, p) for topic in topics for p in range(each)]
    found = Series("s")
    home = Home(bed, "resets")
    with leading(home) as daemon:
        writer = ControlWriter(bed.bootstrap, home.names.control)
        for _ in range(repeat):
            _repetition(bed, daemon, writer, keys, found)
    size = _largest_record_bytes(bed, home.names.status)
    bed.delete(*topics)
    bare = found.sample("bare")
    many = f"{len(keys):,} partitions of {_TOPICS} topics"
    whole = found.sample("reset")
    rows = (
        Row(f"reset of {many}, whole", whole),
        Row(
            f"reset of {many}, besides the look for commits",
            whole.less(COMMIT_S),
            "a bare client",
            bare,
            at_most=_GOAL_S,
        ),
        Row(f"rollback of {many}", found.sample("rollback"), "a bare client", bare, at_most=_GOAL_S),
        Row(_RECORD, Sample((size / 1e6,), "MB")),
    )
    note = f"before it sets anything, a reset looks for {COMMIT_S:g} s whether somebody commits who is no member"
    return [Report("Setting a consumer group", rows, (note,))]


def _repetition(
    bed: Bed, daemon: DaemonProcess, writer: ControlWriter, keys: list[tuple[str, int]], found: Series
) -> None:
    group, workflow = bed.unique("reset-group"), bed.unique("reset-run")
    began_s = time.monotonic()
    _commit(bed.bootstrap, group, keys)
    found.add("bare", time.monotonic() - began_s)
    data = {"group": group, "to": "earliest"}
    found.add("reset", _take(daemon, writer, "reset", workflow, data, "completed"))
    found.add("rollback", _take(daemon, writer, "rollback", workflow, {}, "rolled_back"))


def _take(
    daemon: DaemonProcess, writer: ControlWriter, verb: str, workflow: str, data: dict[str, str], state: str
) -> float:
    began_s = time.monotonic()
    writer.send([encoded(command(verb, workflow, data))])
    while (status := daemon.status(workflow)) is None or status["state"] != state:
        if time.monotonic() - began_s > _DEADLINE_S or (
            status is not None and status["state"] in {"failed", "rejected"}
        ):
            raise RuntimeError(f"{workflow} is not {state}: {status and status['why']}")
        time.sleep(_POLL_S)
    return time.monotonic() - began_s


def _commit(bootstrap: str, group: str, keys: list[tuple[str, int]]) -> None:
    """Metadata as Streams writes it, so that what is noted has its size."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        for piece in _pieces([TopicPartition(topic, p, 0, "AgAAAZQ3fVQA") for topic, p in keys]):
            consumer.commit(offsets=piece, asynchronous=False)
        for piece in _pieces([TopicPartition(topic, p) for topic, p in keys]):
            consumer.committed(piece, timeout=_DEADLINE_S)
    finally:
        consumer.close()


def _pieces(places: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    return (places[at : at + _PIECE] for at in range(0, len(places), _PIECE))


def _largest_record_bytes(bed: Bed, topic: str) -> int:
    """Of what lies on the status topic."""
    consumer = Consumer(
        {"bootstrap.servers": bed.bootstrap, "group.id": "bench-sizes", "auto.offset.reset": "earliest"}
    )
    try:
        end = bed.ends(topic, 1)[0]
        consumer.assign([TopicPartition(topic, 0, 0)])
        largest = 0
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end - 1:
            record = consumer.poll(_POLL_S)
            largest = max(largest, len(record.value() or b"") if record is not None and record.error() is None else 0)
        return largest
    finally:
        consumer.close()
