"""Kafka clients and threads of one lane's process against one broker and three, counted in /proc while it copies, and
extrapolated to fifty brokers.

librdkafka names its threads: one `rdk:main` per client and one `rdk:broker...` per known broker, used or not.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from bench.bed import Topics
from bench.result import Report, Row, Sample
from bench.specs import create_own, replay_spec
from recoveryd_jobs.contract import JobSpec, PartitionRange, encode
from recoveryd_sandbox.cluster import Cluster
from recoveryd_sandbox.cluster_nodes import Shape

NAME = "lane-clients"
_BROKERS, _COMPUTED = (1, 3), 50
_CLIENTS_AT_MOST = 6
_PARTITIONS, _RECORDS = 6, 6_000
_DEADLINE_S = 60.0
_SETTLE_S = 5.0  # in its first seconds a lane has clients that it closes later
_ROOT = Path(__file__).resolve().parents[1]
_LANE = """
import sys
from recoveryd_jobs.contract import JobSpec, decode
from recoveryd_jobs.lane.life import run_lane
spec = decode(JobSpec, sys.stdin.buffer.read())
run_lane(spec, spec.lanes[0])
"""


def measure() -> list[Report]:
    found = {count: _counted(count) for count in _BROKERS}
    few, many = (found[count] for count in _BROKERS)
    rows = [
        Row(f"Kafka clients of a lane, {count} brokers", _sample(found[count][0], "clients"), at_most=_CLIENTS_AT_MOST)
        for count in _BROKERS
    ]
    rows += [
        Row(f"threads of a lane's process, {count} brokers", _sample(found[count][1], "threads")) for count in _BROKERS
    ]
    each = (many[1] - few[1]) / (_BROKERS[1] - _BROKERS[0])
    computed = many[1] + each * (_COMPUTED - _BROKERS[1])
    rows.append(
        Row(
            f"the same for {_COMPUTED} brokers, computed",
            _sample(computed, "threads"),
            "3 brokers",
            _sample(many[1], "threads"),
        )
    )
    note = (
        f"each broker costs {each:.1f} threads, which sleep: a client has one for every broker it knows; a worker "
        "process runs one lane at a time"
    )
    return [Report("Kafka clients of a lane", tuple(rows), (note,))]


def _sample(value: float, unit: str) -> Sample:
    return Sample((float(value),), unit)


def _counted(brokers: int) -> tuple[int, int]:
    """Clients and threads of a lane that copies and follows."""
    with (
        tempfile.TemporaryDirectory(prefix="recoveryd-bench-") as folder,
        Cluster(Path(folder), Shape(brokers, secure=False)) as cluster,
    ):
        topics = Topics(cluster.bootstrap)
        spec = _spec(topics)
        lane = subprocess.Popen([sys.executable, "-c", _LANE], stdin=subprocess.PIPE, cwd=_ROOT)
        try:
            assert lane.stdin is not None
            lane.stdin.write(encode(spec))
            lane.stdin.close()
            _await_copied(topics, spec)
            time.sleep(_SETTLE_S)
            names = Counter(_thread_names(lane.pid))
        finally:
            lane.kill()
            lane.wait(_DEADLINE_S)
    return names["rdk:main"], sum(names.values())


def _thread_names(pid: int) -> list[str]:
    return [path.read_text(encoding="ascii").strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]


def _spec(topics: Topics) -> JobSpec:
    """A following replay of all partitions by one lane."""
    create_own(topics)
    for name in ("source", "target"):
        topics.create(name, _PARTITIONS)
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number in range(_RECORDS):
        producer.produce("source", b"x" * 100, partition=number % _PARTITIONS)
    if producer.flush(_DEADLINE_S):
        raise RuntimeError("the source could not be filled")
    ranges = [PartitionRange(p, 0, None) for p in range(_PARTITIONS)]
    return replay_spec(topics, "counted", "source", "target", _PARTITIONS, [ranges])


def _await_copied(topics: Topics, spec: JobSpec) -> None:
    give_up_s = time.monotonic() + _DEADLINE_S
    while 0 in topics.ends(spec.target.topic, _PARTITIONS):
        if time.monotonic() > give_up_s:
            raise RuntimeError("the lane copies nothing")
        time.sleep(0.1)
