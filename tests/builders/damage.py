"""A record that is damaged on the disk of its broker, as a failing disk leaves it: its check sum is wrong."""

from pathlib import Path

import pytest

from recoveryd_sandbox.broker import Broker


def damage(broker: Broker | None, topic: str, value: bytes, partition: int = 0, *, claims: int | None = None) -> None:
    """Change one byte of the last record with this value, which must not be compressed. `claims`: the header of its
    batch is damaged too, and says that the batch begins at this offset.
    """
    if broker is None:
        pytest.skip("needs the disk of its broker")
    [log] = broker.folder.rglob(f"{topic}-{partition}/*.log")
    data = Path(log).read_bytes()
    where = data.rindex(value)
    with Path(log).open("r+b") as file:
        file.seek(where)
        file.write(b"?")
        if claims is not None:
            file.seek(_batch_of(data, where))
            file.write(claims.to_bytes(8, "big"))


def _batch_of(data: bytes, where: int) -> int:
    """Where the batch begins that holds this byte."""
    at = 0
    while (behind := at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")) <= where:
        at = behind
    return at


def cut_back(broker: Broker, topic: str, end: int, partition: int = 0) -> None:
    """Take away what lies at `end` and behind it, as a power cut does with what was in memory only. The broker must
    have been killed, and a batch must begin there.
    """
    [log] = broker.folder.rglob(f"{topic}-{partition}/*.log")
    data, at = Path(log).read_bytes(), 0
    while int.from_bytes(data[at : at + 8], "big") < end:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    assert int.from_bytes(data[at : at + 8], "big") == end, "no batch begins there"
    with Path(log).open("r+b") as file:
        file.truncate(at)
