"""A record that is damaged on the disk of its broker, as a failing disk leaves it: its check sum is wrong."""

from pathlib import Path

import pytest

from recoveryd_sandbox.broker import Broker


def damage(broker: Broker | None, topic: str, value: bytes, partition: int = 0) -> None:
    """Change one byte of the last record with this value, which must not be compressed."""
    if broker is None:
        pytest.skip("needs the disk of its broker")
    [log] = broker.folder.rglob(f"{topic}-{partition}/*.log")
    where = Path(log).read_bytes().rindex(value)
    with Path(log).open("r+b") as file:
        file.seek(where)
        file.write(b"?")
