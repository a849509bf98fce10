"""A savepoint of an application with a large changelog, compared with a plain replay of the same topic: both by a
command to the same daemon, both verified, so that what differs is what a savepoint does besides copying.
"""

import time
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.records import PARTITIONS, DataSet, make_changelog, settle
from bench.result import Report, Row, Series, rotated
from recoveryd.adapters.kafka.steps.offset_steps import COMMIT_S

NAME = "savepoints"
_RATIO = 1.15
_UNIT = "bench-keeper"
_INPUT = "bench.keeper.in"
_DEADLINE_S = 600.0
_POLL_S = 0.1
_SAVEPOINT, _REPLAY = "savepoint", "replay"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    data = make_changelog(bed, f"{_UNIT}-store-changelog", quick=quick)
    bed.create(_INPUT, 1)
    with closing(Consumer({"bootstrap.servers": bed.bootstrap, "group.id": _UNIT})) as consumer:
        consumer.commit(offsets=[TopicPartition(_INPUT, 0, 0)], asynchronous=False)
    unit = {
        "kind": "group", "group": _UNIT, "inputs": [_INPUT], "outputs": {}, "stateful": True,
        "internal_topics": [data.topic],
    }  # fmt: skip
    found = Series("s")
    home = Home(bed, "savepoints")
    with leading(home, {"units": {_UNIT: unit}}) as daemon:
        writer = ControlWriter(bed.bootstrap, home.names.control)
        for turn in range(-1, repeat):  # the first turn warms applications and the page cache, and is not counted
            for kind in rotated((_REPLAY, _SAVEPOINT), max(turn, 0)):
                seconds = _run(bed, daemon, writer, data, kind)
                if turn >= 0:
                    found.add(kind, seconds)
    bed.delete(data.topic, _INPUT)
    whole, plain = found.sample(_SAVEPOINT), found.sample(_REPLAY)
    megabytes = data.records * data.bytes_each / 1e6
    busy = whole.less(COMMIT_S)
    rows = (
        Row(f"savepoint of {data.name}, whole", whole),
        Row(
            f"savepoint of {data.name}, besides the look for commits",
            busy,
            "a replay of the same topic",
            plain,
            ratio_at_most=_RATIO,
        ),
    )
    notes = (
        f"{megabytes / busy.median:,.0f} MB/s against {megabytes / plain.median:,.0f} MB/s, each with its proof",
        f"before it notes anything, a savepoint looks for {COMMIT_S:g} s whether somebody commits who is no member",
    )
    return [Report("Savepoint of a large changelog", rows, notes)]


def _run(bed: Bed, daemon: DaemonProcess, writer: ControlWriter, data: DataSet, kind: str) -> float:
    name = bed.unique(f"keeper-{kind}")
    made = f"savepoint.{name}.{data.topic}" if kind == _SAVEPOINT else name
    asked = (
        command(_SAVEPOINT, name, {"unit": _UNIT, "name": name})
        if kind == _SAVEPOINT
        else replay(name, data.topic, made)
    )
    began_s = time.monotonic()
    writer.send([encoded(asked)])
    while (status := daemon.status(name) or {}).get("state") != "completed":
        if time.monotonic() - began_s > _DEADLINE_S or status.get("state") in {"failed", "rejected"}:
            raise RuntimeError(f"{name} is not completed: {status.get('why')}")
        time.sleep(_POLL_S)
    seconds = time.monotonic() - began_s
    _check(bed, daemon, data, made, _copy_of(status, kind))
    bed.delete(made)
    settle()
    return seconds


def _copy_of(status: dict[str, Any], kind: str) -> str:
    """The recovery that copied."""
    return f"{status['recovery']}-0" if kind == _SAVEPOINT else str(status["recovery"])


def _check(bed: Bed, daemon: DaemonProcess, data: DataSet, made: str, copied_by: str) -> None:
    """Raises when it is not the whole changelog, or was not verified. Markers make the copy's log longer, never
    shorter.
    """
    ends = bed.ends(made, PARTITIONS)
    if any(end < wanted for end, wanted in zip(ends, data.ends, strict=True)):
        raise RuntimeError(f"{made} ends at {ends}, the changelog at {data.ends}")
    proof = (daemon.status(copied_by) or {}).get("verification") or {}
    if proof.get("result") != "match" or proof.get("target_records") != data.records:
        raise RuntimeError(f"the copy does not verify: {proof}")
