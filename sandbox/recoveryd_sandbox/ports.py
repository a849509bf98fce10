"""Free TCP ports for a server that will bind them a moment later.

The ports are below the range that the kernel gives to outgoing connections. In that range, a client that keeps trying
to reach a stopped broker can be given that very port as its own, connect to itself, and keep the broker from coming
back.
"""

import random
import socket

_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES_MAX = 200


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


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` different ports that nothing is bound to now. Raises `OSError` when none can be found."""
    found: set[int] = set()
    dice = random.SystemRandom()  # processes that start together must not try the same ports
    for _ in range(_TRIES_MAX):
        port = dice.randrange(_LOWEST, _HIGHEST)
        if port not in found and is_free(port, host):
            found.add(port)
        if len(found) == count:
            return sorted(found)
    raise OSError(f"no {count} free ports between {_LOWEST} and {_HIGHEST} on {host}")
