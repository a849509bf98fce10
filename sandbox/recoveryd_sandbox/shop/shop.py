"""The shop itself: its topics, its application in two versions, and what the output says."""

import time
from dataclasses import replace
from pathlib import Path

import yaml

from recoveryd_sandbox.daemon_process import PATIENT
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.shop.orders import (
    BEGIN_MS,
    BUG,
    CUSTOMERS,
    CUSTOMERS_TOTAL,
    ORDERS,
    ORDERS_TOTAL,
    TOTALS,
    UNIT,
    customers,
    orders,
)
from recoveryd_sandbox.shop.records import committed, read, write
from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from recoveryd_sandbox.topics import Topics

_PARTITIONS = 4
_KEPT = {"retention.ms": "-1"}  # any retention would end records of that time
_TIMEOUT_S = 600.0
_POLL_S = 0.2
_PROFILE = {"master": "local[2,4]", "driver_memory": "512m", "warm": 1}
# It is at least once, so it would count orders twice if it lost its place in the group, or gave up a write, on a
# machine that stands still.
_PATIENT_APP = {
    "consumer.session.timeout.ms": "120000",
    "consumer.max.poll.interval.ms": "1800000",
    "producer.delivery.timeout.ms": "900000",
    "task.timeout.ms": "1800000",
}


class Shop:
    """Its topics on the cluster at `bootstrap`, and the application, which works in `folder`."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        spec = AppSpec(UNIT, Mode.TOTALS, (ORDERS, CUSTOMERS), TOTALS, factor=BUG, settings=_PATIENT_APP)
        self.app = StreamsApp(folder / UNIT, bootstrap, spec)

    def fill(self) -> None:
        """Create the topics and write customers and orders. Raises `SandboxError`."""
        topics = Topics(self.bootstrap)
        for topic in (ORDERS, CUSTOMERS, TOTALS):
            topics.create(topic, _PARTITIONS, _KEPT)
        write(self.bootstrap, CUSTOMERS, customers(), BEGIN_MS - 1_000 * CUSTOMERS_TOTAL)
        self.order(0, ORDERS_TOTAL)

    def order(self, begin: int, end: int) -> None:
        """Write the orders with the numbers [begin, end). Raises `SandboxError`."""
        write(self.bootstrap, ORDERS, orders(begin, end), BEGIN_MS + 1_000 * begin)

    def orders_total(self) -> int:
        """How many there are. Raises `SandboxError`."""
        return sum(Topics(self.bootstrap).end_offsets(ORDERS))

    def deploy(self, factor: int, output: str = TOTALS) -> None:
        """From the next start on, the application is another version of itself."""
        self.app.spec = replace(self.app.spec, factor=factor, output=output)

    def totals(self, topic: str = TOTALS) -> dict[str, str]:
        """The sums as a reader of the output has them now: the last of each customer. Raises `SandboxError`."""
        return dict(read(self.bootstrap, topic, _PARTITIONS))

    def committed(self) -> dict[tuple[str, int], int]:
        """Where the application's group stands, by topic and partition; -1001 where it has no commit."""
        return committed(self.bootstrap, UNIT, [(t, p) for t in (ORDERS, CUSTOMERS) for p in range(_PARTITIONS)])

    def await_totals(self, wanted: dict[str, str], topic: str = TOTALS, deadline_s: float = _TIMEOUT_S) -> None:
        """Raises `SandboxError` when the output does not say this in time."""
        give_up_at_s = time.monotonic() + deadline_s
        while self.totals(topic) != wanted:
            if time.monotonic() >= give_up_at_s:
                raise SandboxError(f"{topic} does not say what was expected after {deadline_s:.0f} s.")
            time.sleep(_POLL_S)

    def write_config(self) -> Path:
        """The config of a daemon that knows the cluster and the application as a unit. Call it once that has run: its
        topology stands in it.
        """
        unit = {
            "kind": "streams",
            "group": UNIT,
            "inputs": [ORDERS, CUSTOMERS],
            "outputs": {TOTALS: {"behaviour": "append_only", "owner": "billing"}},
            "topology": str(self.app.topology_file),
            "owner": "orders-team",
        }
        config = {
            "clusters": {"main": {"bootstrap.servers": self.bootstrap}},
            "work_dir": str(self.folder / "work"),
            "profiles": {"default": _PROFILE},
            **PATIENT,
            "units": {UNIT: unit},
        }
        file = self.folder / "recoveryd.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return file
