"""Commit markers that a broker loses: its coordinator still knows the transaction as complete, as after a freeze in
which a partition had no leader.
"""

import struct
from pathlib import Path

from recoveryd_sandbox.broker import Broker

_BATCH_HEADER = ">qi5xIh"  # base offset, length, leader epoch and magic, checksum, attributes
_CONTROL = 0x20


def forget_markers(broker: Broker, *places: tuple[str, int]) -> None:
    """Cut the last marker of each topic and partition off its log, of which it must be the last thing. The broker
    starts again.
    """
    broker.kill()  # one that ends cleanly would keep what it knows of open transactions elsewhere
    for topic, partition in places:
        *_, log = sorted(
            (broker.folder / "data").rglob(f"{topic}-{partition}/*.log")
        )  # markers of old records begin a segment
        with log.open("r+b") as file:
            file.truncate(_start_of_last_marker(log))
    broker.start()


def _start_of_last_marker(log: Path) -> int:
    data, at, last = log.read_bytes(), 0, (0, 0)
    while at < len(data):
        _base, length, _checksum, attributes = struct.unpack_from(_BATCH_HEADER, data, at)
        last, at = (at, attributes), at + 12 + length
    assert last[1] & _CONTROL, "a log that does not end with a marker"
    return last[0]
