"""How long topics are kept, asked of the real broker, and what a daemon says of a unit whose input is kept too
short.
"""

import asyncio
from pathlib import Path
from urllib.request import urlopen

import pytest

from recoveryd.adapters.kafka.retention import KafkaRetention
from tests.builders.configs import set_configs
from tests.builders.history import create_topics
from tests.e2e.stack import Stack

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
DEADLINE_S = 120.0


async def test_retention_of_many_topics_and_none_of_one_that_is_not_there(bootstrap: str, unique: str) -> None:
    forever, short, compacted = (f"{unique}{name}" for name in ("forever", "short", "compacted"))
    create_topics(bootstrap, {forever: 1})
    create_topics(bootstrap, {short: 1}, {"retention.ms": str(HOUR_MS)})
    create_topics(bootstrap, {compacted: 1}, {"retention.ms": str(HOUR_MS), "cleanup.policy": "compact"})
    asked = KafkaRetention({"main": {"bootstrap.servers": bootstrap}})
    try:
        found = await asked.kept_ms("main", [forever, short, compacted, f"{unique}nowhere"])
        assert found == {forever: None, short: HOUR_MS, compacted: None}
        await asyncio.to_thread(set_configs, bootstrap, short, {"retention.ms": "-1"})
        assert await asked.kept_ms("main", [short]) == {short: None}
    finally:
        await asked.close()


async def test_a_cluster_that_does_not_answer_says_nothing() -> None:
    asked = KafkaRetention({"main": {"bootstrap.servers": "127.0.0.1:9", "socket.timeout.ms": 1_000}})
    try:
        assert await asked.kept_ms("main", ["a"]) == {}
    finally:
        await asked.close()


@pytest.mark.scenario("S-RUN-10")
def test_a_daemon_tells_of_an_input_that_is_kept_too_short(bootstrap: str, unique: str, tmp_path: Path) -> None:
    topic = f"{unique}orders"
    create_topics(bootstrap, {topic: 1}, {"retention.ms": str(HOUR_MS)})
    unit = {"kind": "group", "group": f"{unique}app", "inputs": [topic], "retention_objective": "24h"}
    with Stack(bootstrap, tmp_path, {"units": {"orders": unit}}) as stack, stack.running() as daemon:
        [event] = stack.follower.wait(
            lambda: stack.follower.events(kind="unit_retention_short"), DEADLINE_S, "the event"
        )
        page = urlopen(f"http://127.0.0.1:{daemon.port}/metrics", timeout=DEADLINE_S).read().decode()
    assert (event["subject"], event["data"]["kept_ms"]) == ("orders", {topic: HOUR_MS})
    assert event["data"]["why"] == f"{topic} is kept for 1 h, the objective of orders is 24 h"
    assert 'recoveryd_unit_retention_short{unit="orders"} 1.0' in page
