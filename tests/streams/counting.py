"""Applications that count records by key: what goes in, what has to come out, and the unit of the config. Versions of
them are exchanged, saved and restored by end-to-end tests.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.streams.places import SOURCES

# Each input is one output, and is committed soon.
UNCACHED = {"statestore.cache.max.bytes": "0", "commit.interval.ms": "200"}
Pairs = list[tuple[str, str]]


def keyed(count: int, keys: int) -> Pairs:
    """Records whose keys take turns."""
    return [(f"k{number % keys}", str(number)) for number in range(count)]


FIRST, LATER, LAST = keyed(70, 7), keyed(35, 5), keyed(12, 3)


def counts(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The table that an application has which counted these, as text."""
    keys = [key for key, _ in pairs]
    return {key: str(keys.count(key)) for key in keys}


def unit_of(spec: AppSpec, **more: Any) -> dict[str, Any]:
    return {
        "kind": "streams",
        "group": spec.application_id,
        "inputs": list(spec.inputs),
        "outputs": {spec.output: {"behaviour": "append_only"}},
        "stateful": True,
        **more,
    }


class CountingWorld:
    """`spec` counts what comes to `input`, into `output`; `more` of it. Names begin with `prefix`."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, **more: Any) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.input, self.output = f"{prefix}in", f"{prefix}counts"
        more = {"settings": UNCACHED, **more}
        self.spec = AppSpec(f"{prefix}app", Mode.COUNT, (self.input,), self.output, **more)

    def program(self, name: str, spec: AppSpec) -> StreamsApp:
        return StreamsApp(self.folder / name, self.bootstrap, spec, SOURCES)
