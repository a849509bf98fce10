"""The state of a transactional id on the broker: Kafka's DescribeTransactions (api 65), encoded and decoded here. For a
cluster of one broker, which coordinates all transactions.
"""

import socket
import struct
import time
from dataclasses import dataclass

from tests.e2e.processes import wait_for

_API, _TIMEOUT_S = 65, 120.0
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: of a broker that came back a moment ago.
_NOT_YET = frozenset({14, 15, 16})
_ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


@dataclass(frozen=True, slots=True)
class Transaction:
    """`state`: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, PrepareEpochFence ..."""

    state: str
    producer_id: int
    epoch: int


def describe(bootstrap: str, transactional_id: str) -> Transaction:
    give_up_s = time.monotonic() + _TIMEOUT_S
    while True:
        error, found = _ask(bootstrap, transactional_id)
        if error not in _NOT_YET or time.monotonic() > give_up_s:
            assert error == 0, f"{transactional_id}: error {error}"
            return found
        time.sleep(0.05)


def await_ended(bootstrap: str, transactional_id: str) -> None:
    """Until the coordinator has noted the end of its last transaction. It writes the markers before: one that is killed
    in between writes them once more when it is back.
    """
    wait_for(lambda: describe(bootstrap, transactional_id).state in _ENDED, 10.0, lambda: f"{transactional_id} is open")


def _ask(bootstrap: str, transactional_id: str) -> tuple[int, Transaction]:
    """With an error code, which is 0 for none."""
    host, _, port = bootstrap.rpartition(":")
    name = transactional_id.encode()
    body = struct.pack(">hhih4sB", _API, 0, 1, 4, b"test", 0) + bytes([2]) + _length(len(name) + 1) + name + b"\0"
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as wire:
        wire.sendall(struct.pack(">i", len(body)) + body)
        with wire.makefile("rb") as stream:
            reply = stream.read(struct.unpack(">i", stream.read(4))[0])
    at = 4 + 1 + 4  # correlation id, tags, throttle time
    states, at = _count(reply, at)
    assert states == 1
    [error] = struct.unpack_from(">h", reply, at)
    _, at = _text(reply, at + 2)
    state, at = _text(reply, at)
    _, _, producer_id, epoch = struct.unpack_from(">iqqh", reply, at)
    return error, Transaction(state, producer_id, epoch)


def _length(number: int) -> bytes:
    """Kafka's unsigned varint."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (raw[at] & 127) << shift
        at += 1
        if raw[at - 1] < 128:
            return number, at
        shift += 7


def _count(raw: bytes, at: int) -> tuple[int, int]:
    """The number of entries of a compact array (encoded as one more), and the next position."""
    number, at = _varint(raw, at)
    return max(number - 1, 0), at


def _text(raw: bytes, at: int) -> tuple[str, int]:
    size, at = _count(raw, at)
    return raw[at : at + size].decode(), at + size
