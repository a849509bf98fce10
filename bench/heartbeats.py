"""What the heartbeats of nine replays of a thousand partitions cost a daemon: a real daemon, its whole process, and
heartbeats as lanes send them.

No application runs: the recoveries are on the status topic as a daemon would have left them, and their lanes and
drivers go on reporting, so the daemon takes them over.
"""

import threading
import time
from dataclasses import replace
from typing import Self

from confluent_kafka import Producer

from bench.bed import Bed
from bench.daemon_process import DaemonProcess, Home, leading
from bench.records import make_many
from bench.recoveries import LANES, Source, start_state, with_running
from bench.result import Report, Row, Sample
from recoveryd.capabilities import make_decider, make_status_topic
from recoveryd.params import params_beside
from recoveryd.recovery.model import PlannedTopic
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, LanePosition, encode, progress_key
from recoveryd_sandbox.process import process_cpu_s

NAME = "heartbeats"
_REPLAYS = 9
_COST_PERCENT = 10.0
_SETTLE_S, _WINDOW_S = 10.0, 10.0
_DEADLINE_S = 60.0


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    data = make_many(bed, quick=quick)
    source = Source(data.topic, bed.topic_id(data.topic), len(data.ends), data.ends[0])
    idle, at_rest, moving = (
        _percent(bed, source, replays, every_s, repeat) for replays, every_s in ((0, 0), (_REPLAYS, 0), (_REPLAYS, 5))
    )
    bed.delete(data.topic)
    what = f"{_REPLAYS} replays of {source.partitions:,} partitions"
    rows = (
        Row(f"{what}, nothing moves", at_rest, "no replay", idle),
        Row(f"{what}, all of it moves every 5 s", moving, "no replay", idle, at_most=_COST_PERCENT),
    )
    note = (
        f"processor time of the whole daemon; {LANES} lanes and a driver each report once a second; a lane's "
        "positions move when it commits a chunk"
    )
    return [Report("Hearing many partitions", rows, (note,))]


def _percent(bed: Bed, source: Source, replays: int, every_s: int, repeat: int) -> Sample:
    home = Home(bed, "hearing")
    names = [f"hearing-{n}" for n in range(replays)]
    _write_status(bed, home, names, source)
    lanes = _Lanes(bed, home, names, source, every_s)
    with lanes, leading(home) as daemon:
        time.sleep(_SETTLE_S)
        found = [_window(daemon) for _ in range(repeat)]
        for name in names:
            status = daemon.status(name)
            if status is None or status["state"] != "running":
                raise RuntimeError(f"{name} does not run any more: {status and status['why']}")
    return Sample(tuple(found), "% of a core")


def _window(daemon: DaemonProcess) -> float:
    began_s, before_s = time.monotonic(), process_cpu_s(daemon.pid)
    time.sleep(_WINDOW_S)
    return (process_cpu_s(daemon.pid) - before_s) / (time.monotonic() - began_s) * 100


def _write_status(bed: Bed, home: Home, names: list[str], source: Source) -> None:
    params = Params(max_active_recoveries=_REPLAYS)
    decider, state, status = make_decider(params_beside(params)), start_state(params), make_status_topic()
    producer = Producer({"bootstrap.servers": bed.bootstrap})
    now_ms = time.time_ns() // 1_000_000
    topic = bed.unique(
        "bench.hearing"
    )  # one for all: nothing is written, and brokers know so many partitions only once
    target = PlannedTopic("main", topic, bed.create(topic, source.partitions), source.partitions)
    for offset, name in enumerate(names):
        state = with_running(decider, state, name, offset, source)
        recovery = state.of(RECOVERY).recoveries[name]
        assert recovery.plan is not None
        plan = replace(recovery.plan, target=target)
        recovery = replace(recovery, created_ms=now_ms, updated_ms=now_ms, plan=plan)
        key, value = status.encode(recovery)
        producer.produce(home.names.status, value, key)
    if producer.flush(_DEADLINE_S):
        raise RuntimeError("the status topic could not be filled")


class _Lanes:
    """All lanes and drivers, in a thread."""

    def __init__(self, bed: Bed, home: Home, names: list[str], source: Source, every_s: int) -> None:
        self._names, self._source, self._every_s, self._topic = names, source, every_s, home.names.progress
        self._producer = Producer({"bootstrap.servers": bed.bootstrap, "queue.buffering.max.messages": 10_000})
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join(_DEADLINE_S)

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._leaving.wait(1.0):
            second = int(time.monotonic() - began_s)
            for number, name in enumerate(self._names):
                self._send(name, None, DriverHeartbeat(name, 1, "lanes", 1))
                for lane in range(LANES):
                    at = 1 + (second + number * LANES + lane) // self._every_s if self._every_s else 1
                    self._send(name, lane, self._heartbeat(name, lane, at))
            self._producer.poll(0)

    def _heartbeat(self, name: str, lane: int, at: int) -> LaneHeartbeat:
        rows = tuple(
            LanePosition(p, at, self._source.records, "copying", at, 0, 0, 0, 100 * at)
            for p in range(lane, self._source.partitions, LANES)
        )
        return LaneHeartbeat(
            name, 1, lane, 1, "copying", True, 200.0, 20_000.0, rows, sent_ms=time.time_ns() // 1_000_000
        )

    def _send(self, name: str, lane: int | None, report: LaneHeartbeat | DriverHeartbeat) -> None:
        self._producer.produce(self._topic, encode(report), progress_key(name, lane))
