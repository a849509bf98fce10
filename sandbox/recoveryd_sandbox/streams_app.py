"""A real application of Kafka Streams, as a process with a state directory of its own: to try recoveries of
applications on. Its sources are in `sample_app`; they are compiled when it is first started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from recoveryd_sandbox.jars import STREAMS, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.java_build import compiled
from recoveryd_sandbox.java_program import JavaProgram
from recoveryd_sandbox.jvm import Jvm

SAMPLE = Path(__file__).parent / "sample_app"
_HEAP = "192m"


class Mode(StrEnum):
    """What the application computes; its inputs are named in the order told here."""

    WORD_COUNT = "wordcount"  # lines of text
    COUNT = "count"  # anything with a key
    THROUGH = "through"  # the same, by way of the topic `through`
    TOTALS = "totals"  # amounts by customer, names of customers: the sum of each
    LOOKUP = "lookup"  # the same, with the names in a global table
    WINDOWS = "windows"  # anything with a key: counts per window of event time
    FOREIGN_KEY = "fkey"  # orders as `customer:amount`, names of customers


class Protocol(StrEnum):
    """How its group is coordinated."""

    CLASSIC = "classic"
    STREAMS = "streams"


@dataclass(frozen=True)
class AppSpec:
    """What is run. `factor` other than 1 is a bug of mode `totals`; `store` names the store, which Streams does
    otherwise; `skip` leaves records with this value out, by a filter that is a node more; `settings` are properties of
    Kafka Streams.
    """

    application_id: str
    mode: Mode
    inputs: tuple[str, ...]
    output: str
    through: str | None = None
    protocol: Protocol = Protocol.CLASSIC
    is_exactly_once: bool = False
    factor: int = 1
    store: str | None = None
    skip: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        named = {
            "application-id": self.application_id,
            "mode": self.mode.value,
            "inputs": ",".join(self.inputs),
            "output": self.output,
            "protocol": self.protocol.value,
            "eos": str(self.is_exactly_once).lower(),
            "factor": str(self.factor),
        }
        named |= {"through": self.through} if self.through else {}
        named |= {"store": self.store} if self.store else {}
        named |= {"skip": self.skip} if self.skip else {}
        words = [word for name, value in named.items() for word in (f"--{name}", value)]
        return words + [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]


class StreamsApp(JavaProgram):
    """The application of `sources` on the cluster at `bootstrap`. `spec` may be changed while it does not run: the next
    start is another version on the same state.
    """

    def __init__(self, folder: Path, bootstrap: str, spec: AppSpec, sources: Path = SAMPLE) -> None:
        super().__init__(folder, spec.application_id)
        self.spec = spec
        self._bootstrap, self._sources = bootstrap, sources

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    @property
    def topology_file(self) -> Path:
        """The text of its `Topology#describe`, written at each start."""
        return self.folder / f"{self.name}.topology.txt"

    def command(self) -> list[str]:
        jvm = Jvm(find_java(), kafka_jars(bundle=STREAMS), compiled(self._sources))
        places = {
            "--bootstrap": self._bootstrap,
            "--state-dir": str(self.state_dir),
            "--topology-file": str(self.topology_file),
        }
        words = [word for pair in places.items() for word in pair]
        return jvm.logged("sample.App", *self.spec.arguments(), *words, log_file=self.log_file, heap=_HEAP)

    def is_ready(self) -> bool:
        return "ready" in self.output()

    def restored(self) -> dict[tuple[str, int], int]:
        """How many records it read from changelogs since it was last started, by store and partition."""
        said = [line.split() for line in self.output() if line.startswith("restored ")]
        return {(store, int(partition)): int(records) for _, store, partition, records in said}
