"""Free TCP ports for a server that will bind them a moment later.

The ports are below the range that the kernel gives to outgoing connections. In that range, a client that keeps trying
to reach a stopped broker can be given that very port as its own, connect to itself, and keep the broker from coming
back.

A port that was given is not bound at once, and who restarts lets go of it for a while. So a process gives none twice
soon, and processes that start servers beside each other may each have a part of the ports (`SANDBOX_PORTS`, for
instance `15000-19000`).
"""

import os
import random
import socket
from collections import deque

_LOWEST, _HIGHEST = 15_000, 32_000
_PART = "SANDBOX_PORTS"
_TRIES_MAX = 1_000
_given: deque[int] = deque(maxlen=1_000)


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: connections in TIME_WAIT do no harm
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def take_part(number: int, of: int) -> None:
    """From now on this process and those that it starts get ports of one of so many parts. `number` begins with 0."""
    size = (_HIGHEST - _LOWEST) // of
    os.environ[_PART] = f"{_LOWEST + number * size}-{_LOWEST + (number + 1) * size}"


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` different ports that nothing is bound to now. Raises `OSError` when none can be found."""
    lowest, highest = map(int, os.environ.get(_PART, f"{_LOWEST}-{_HIGHEST}").split("-"))
    found: set[int] = set()
    dice = random.SystemRandom()  # processes that start together must not try the same ports
    for _ in range(_TRIES_MAX):
        port = dice.randrange(lowest, highest)
        if port not in found and port not in _given and is_free(port, host):
            found.add(port)
        if len(found) == count:
            _given.extend(found)
            return sorted(found)
    raise OSError(f"no {count} free ports between {lowest} and {highest} on {host}")
