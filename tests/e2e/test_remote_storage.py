"""A topic with remote storage (Kafka's tiered storage) on a real broker: what of a range lies there stands in
its plan.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.jars import REMOTE_STORAGE, kafka_jars
from recoveryd_sandbox.topics import make_topics
from tests.e2e.clients import writer
from tests.e2e.data import write_plain
from tests.e2e.log_reader import offsets
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

SEGMENT_BYTES = 1_048_576  # Kafka takes no less
RECORDS, VALUE_BYTES = 6_000, 1_000
CONFIGS = {
    "remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "local.retention.bytes": "1",
    "retention.ms": "-1",
}  # fmt: skip


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Beside a broker whose remote storage is a folder, as Kafka's own tests have it."""
    folder = tmp_path_factory.mktemp("remote")
    overrides = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{kafka_jars(bundle=REMOTE_STORAGE)}/*",
        "rsm.config.dir": str(folder / "cold"),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }
    with Broker(folder / "node", overrides=overrides) as broker, Stack(broker.bootstrap, folder / "stack") as made:
        yield made


def fill(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, [NewTopic(topic, 1, 1, config=configs)])
    write_plain(writer(bootstrap, linger_ms=20), topic, (0,), range(RECORDS), value_bytes=VALUE_BYTES)


def in_remote_storage(folder: Path, topic: str) -> int:
    """How many segments were uploaded."""
    return sum(topic in str(path.parent) for path in folder.rglob("*.log"))


@pytest.mark.scenario("S-RUN-17")
def test_the_plan_names_what_lies_in_remote_storage_and_expects_less_of_it(stack: Stack) -> None:
    cold, warm = "flights-cold", "flights-warm"
    fill(stack.bootstrap, cold, CONFIGS)
    fill(stack.bootstrap, warm, {"segment.bytes": str(SEGMENT_BYTES)})
    wait_for(lambda: in_remote_storage(stack.folder.parent / "cold", cold) >= 4, 240.0)
    settings = {"rates": {"bytes_per_s": 10_000_000, "remote_bytes_per_s": 100_000}}
    with stack.running(settings=settings):
        tries = count(1)

        def plan(topic: str, **more: object) -> dict[str, Any]:
            """Planned again while it is not known in time what lies where."""

            def look() -> dict[str, Any] | None:
                run = f"{topic}-{next(tries)}"
                stack.control.replay(run, topic, f"{topic}-copy", dry_run=True, target_create=True, **more)
                found: dict[str, Any] = stack.follower.wait_state(run, "planned")["plan"]
                return found if found["remote"] is not None else None

            found = wait_for(look, 240.0)
            assert found is not None
            return found

        def with_remote_part() -> dict[str, Any] | None:
            """Once the broker has also taken the uploaded segments from its own disk."""
            made = plan(cold)
            return made if made["remote"] and made["remote"][0]["stop"] > RECORDS / 4 else None

        made = wait_for(with_remote_part, 240.0)
        assert made is not None
        assert offsets(stack.bootstrap, cold, end=False) == {0: 0}  # what lies there is read as if it were here
        [part] = made["remote"]
        assert (part["partition"], part["start"]) == (0, 0)
        assert part["stop"] <= RECORDS
        told = {finding["code"]: finding["message"] for finding in made["findings"]}
        assert f"{part['stop']:,} offsets lie in remote storage" in told["source_remote"]
        local = plan(warm)
        assert local["remote"] == []
        slow, quick = (each["eta_seconds"]["mid"] for each in (made, local))
        assert slow - quick > part["stop"] * VALUE_BYTES / 100_000 / 2
        behind = plan(cold, start={"offset": RECORDS - 1})
        assert behind["remote"] == []
