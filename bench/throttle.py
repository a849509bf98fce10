"""How soon a changed rate reaches every lane, and how exactly it is kept: a real daemon, a real Spark application, and
a reader of the target.

The clock of a change starts when the `throttle` command is handed to the producer and stops when a heartbeat of each
lane names the directive that follows from it (or a later one). The next change follows after an uneven pause, so that
changes fall on all moments of the daemon's and the lanes' seconds. The rate that is kept is measured from outside: the
ends of the target's partitions, times the size of a record, over every ten seconds.
"""

import random
import statistics
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.records import PARTITIONS, DataSet, make_kilobyte
from bench.result import Report, Row, Sample
from recoveryd.wire.topics import TopicNames
from recoveryd_jobs.contract import Directive, LaneHeartbeat, decode, decode_progress

NAME = "throttle"
_LANES = 2
_CHANGES, _CHANGE_S = 100, 2.0
_RATES = (2_000_000.0, 8_000_000.0)
_HOLD_S, _SETTLE_S, _WINDOW_S, _OFF_PERCENT = 30.0, 4.0, 10.0, 10.0
_LOOK_S = 0.1
_DEADLINE_S = 60.0


def measure(bed: Bed, *, quick: bool) -> list[Report]:
    data = make_kilobyte(bed, quick=quick)
    size = _record_bytes(bed, data)
    with leading(Home(bed, "throttle")) as daemon:
        watch = _Watch(bed, daemon.home.names)
        writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
        try:
            recovery, target = _start(bed, daemon, writer, data)
            watch.await_lanes(_LANES)
            changes = _changes(writer, watch, recovery, 10 if quick else _CHANGES)
            held = {}
            for rate in _RATES[: 1 if quick else None]:
                writer.send([_throttle(recovery, rate)])
                held[rate] = _held(bed, target, size, _WINDOW_S + 2 if quick else _HOLD_S)
        finally:
            watch.close()
    bed.delete(data.topic)
    p99 = Sample((statistics.quantiles(changes, n=100, method="inclusive")[98],), "s")
    rows = [
        Row(f"rate change obeyed by both lanes, p99 of {len(changes)}", p99, "median", Sample(tuple(changes), "s"),
            at_most=_CHANGE_S),
        *(
            Row(f"{rate / 1e6:g} MB/s, worst of any {_WINDOW_S:g} s", Sample((_worst(rates, rate),), "% off"), "", None,
                at_most=_OFF_PERCENT)
            for rate, rates in held.items()
        ),
        *(
            Row(f"{rate / 1e6:g} MB/s, reached over {_WINDOW_S:g} s", Sample(tuple(r / 1e6 for r in rates), "MB/s"),
                "lease", Sample((rate / 1e6,), "MB/s"))
            for rate, rates in held.items()
        ),
    ]  # fmt: skip
    note = (
        "from the command handed to the producer to each lane's heartbeat about it; bytes are keys and values in "
        "the target, committed or not"
    )
    return [Report("A rate, changed and held", tuple(rows), (note,))]


@dataclass
class _Watch:
    """The lanes' heartbeats, and which directive carried which rate."""

    bed: Bed
    names: TopicNames
    sequences: dict[float, int] = field(default_factory=dict)
    obeyed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": self.bed.bootstrap, "group.id": "bench-throttle", "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 10,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(t, 0, 0) for t in (self.names.directives, self.names.progress)])

    def look(self) -> None:
        for message in self._consumer.consume(100, 0.005):
            value = message.value()
            if message.error() is not None or value is None:
                continue
            if message.topic() == self.names.directives:
                directive = decode(Directive, value)
                if directive.max_bytes_per_s is not None:
                    self.sequences.setdefault(directive.max_bytes_per_s, directive.sequence)
                continue
            said = decode_progress(value)
            if isinstance(said, LaneHeartbeat):
                self.obeyed[said.lane] = max(said.directive_sequence, self.obeyed.get(said.lane, 0))

    def is_obeyed(self, rate: float) -> bool:
        self.look()
        sequence = self.sequences.get(rate)
        return sequence is not None and min(self.obeyed.values()) >= sequence

    def await_lanes(self, count: int) -> None:
        give_up_s = time.monotonic() + _DEADLINE_S
        while len(self.obeyed) < count:
            self.look()
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"{len(self.obeyed)} of {count} lanes were heard")

    def close(self) -> None:
        self._consumer.close()


def _start(bed: Bed, daemon: DaemonProcess, writer: ControlWriter, data: DataSet) -> tuple[str, str]:
    recovery = bed.unique("throttled")
    target = f"bench.out.{recovery}"
    asked = replay(recovery, data.topic, target, verify="none", limits={"max_bytes_per_s": _RATES[0], "mode": "fixed"})
    writer.send([encoded(asked)])
    daemon.wait_for(lambda: bed.produced(target, PARTITIONS) > 0, "copy a record", _DEADLINE_S)
    return recovery, target


def _changes(writer: ControlWriter, watch: _Watch, recovery: str, count: int) -> list[float]:
    """How many seconds each of `count` changes took."""
    uneven, found = random.Random(7), []  # noqa: S311  (no secret)
    for number in range(count):
        rate = 1_000_000.0 + number
        began_s = time.monotonic()
        writer.send([_throttle(recovery, rate)])
        while not watch.is_obeyed(rate):
            if time.monotonic() - began_s > _DEADLINE_S:
                raise RuntimeError(f"change {number} did not reach every lane: {watch.obeyed}")
        found.append(time.monotonic() - began_s)
        time.sleep(uneven.uniform(0.0, 0.5))
    return found


def _throttle(recovery: str, rate: float) -> bytes:
    return encoded(command("throttle", recovery, {"limits": {"max_bytes_per_s": rate}}))


def _held(bed: Bed, target: str, size: float, seconds: float) -> list[float]:
    """Bytes per second over every window of ten seconds, once the change has settled."""
    time.sleep(_SETTLE_S)
    seen: list[tuple[float, int]] = []
    rates: list[float] = []
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        asked_s = time.monotonic()
        records = sum(bed.ends(target, PARTITIONS))
        seen.append(((asked_s + time.monotonic()) / 2, records))
        first = next((s for s in reversed(seen) if seen[-1][0] - s[0] >= _WINDOW_S), None)
        if first is not None:
            rates.append((records - first[1]) * size / (seen[-1][0] - first[0]))
        time.sleep(_LOOK_S)
    if not rates:
        raise RuntimeError("no window of ten seconds was seen")
    return rates


def _worst(rates: list[float], lease: float) -> float:
    return max(abs(rate - lease) / lease for rate in rates) * 100


def _record_bytes(bed: Bed, data: DataSet) -> float:
    """Mean size of key and value; keys differ by a few bytes."""
    consumer = Consumer({"bootstrap.servers": bed.bootstrap, "group.id": "bench-size", "enable.auto.commit": False})
    consumer.assign([TopicPartition(data.topic, p, 0) for p in range(PARTITIONS)])
    sizes: list[int] = []
    while len(sizes) < 10_000:
        sizes += [
            len(m.key() or b"") + len(m.value() or b"") for m in consumer.consume(1_000, 1.0) if m.error() is None
        ]
    consumer.close()
    return statistics.mean(sizes)
