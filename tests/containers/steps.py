"""How long each step of the container set-up took, for the summary at the end of the run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

taken_s: dict[str, float] = {}


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Notes the seconds under `step`, also when it fails."""
    began_s = time.monotonic()
    try:
        yield
    finally:
        taken_s[step] = time.monotonic() - began_s


def summary() -> str:
    """`engine 1.0 s, base image 3.2 s`, in the order in which the steps ended; empty when there was none."""
    return ", ".join(f"{step} {seconds:.1f} s" for step, seconds in taken_s.items())
