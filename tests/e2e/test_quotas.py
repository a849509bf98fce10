"""The brokers' quota on a real recovery: set before its first record, following its rate, kept while the daemon is
dead, and removed at the end.
"""

import itertools
import time

import pytest

from recoveryd_jobs.contract import copy_client_id
from tests.e2e.asking import lane_progress
from tests.e2e.background import Background
from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.integration import kafka_configs
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

RATE = 50_000
_lives = itertools.count(1)


def ours(stack: Stack) -> dict[str, dict[str, float]]:
    """Quotas of this stack's recoveries, by recovery."""
    prefix = f"client-id '{copy_client_id(stack.prefix.rstrip('.'), '')}"
    found = kafka_configs.quotas(stack.bootstrap, (kafka_configs.CLIENT_IDS,)).items()
    return {name.removeprefix(prefix).rstrip("'"): values for name, values in found if name.startswith(prefix)}


def both(rate: float) -> dict[str, float]:
    return {"consumer_byte_rate": rate, "producer_byte_rate": rate}


class QuotaLooks(Background):
    """What Kafka's tool says, again and again."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self._stack = stack
        self.seen: list[dict[str, dict[str, float]]] = []

    def run(self) -> None:
        while not self.ended.wait(0.2):
            self.seen.append(ours(self._stack))


@pytest.fixture
def long(stack: Stack) -> str:
    """40 MB: at twice RATE, the copy still runs when a slow machine has started a new daemon, and all the time
    there must be a quota.
    """
    topic = f"{stack.prefix}long".replace(".", "-")
    fill_plain(stack.bootstrap, topic, 4, 10_000, value_bytes=1_000, compression="none")
    return topic


def await_quotas(stack: Stack, wanted: dict[str, dict[str, float]], deadline_s: float = 30.0) -> None:
    """Asks once a second: each time Kafka's tool starts a JVM."""
    give_up_s = time.monotonic() + patient_s(deadline_s)
    while (found := ours(stack)) != wanted:
        assert time.monotonic() < give_up_s, f"quotas are {found}, not {wanted}"
        time.sleep(1.0)


@pytest.mark.scenario("S-RUN-13")
def test_a_recovery_carries_its_quota_from_before_its_first_record_to_its_end(stack: Stack, long: str) -> None:
    settings = {"quotas": {"enabled": True}, "faust": {"instance_id": "one"}}
    daemon = stack.daemon(f"life{next(_lives)}", settings=settings)
    target = f"{stack.mark}-quota"
    stack.control.replay("held", long, target, target_create=True, limits={"max_bytes_per_s": RATE})
    stack.follower.wait_state("held", "running")
    assert ours(stack) == {"held": both(1.5 * RATE)}
    kinds = [e["type"].split(".")[-2] for e in stack.follower.events(subject="held")]
    assert kinds.index("quota_changed") < kinds.index("attempt_started")

    stack.control.command("throttle", "held", {"limits": {"max_bytes_per_s": 2 * RATE}})
    await_quotas(stack, {"held": both(3 * RATE)})

    with QuotaLooks(stack) as looks:
        copied = lane_progress(stack, "held")[-1][1]
        daemon.kill()
        left = copy_client_id(stack.prefix.rstrip("."), "ended-long-ago")
        kafka_configs.add(stack.bootstrap, "producer_byte_rate=5000", "--entity-type", "clients", "--entity-name", left)
        wait_for(lambda: len(looks.seen) >= 2, 60)
        daemon = stack.daemon(f"life{next(_lives)}", settings=settings)
        wait_for(lambda: looks.seen[-1] == {"held": both(3 * RATE)}, 60)
        wait_for(lambda: lane_progress(stack, "held")[-1][1] > copied, 60)
    assert [found for found in looks.seen if found.get("held") != both(3 * RATE)] == [], "it never left"
    assert daemon.recovery("held")["state"] in {"starting", "running"}

    stack.control.command("throttle", "held", {"limits": {"max_bytes_per_s": 800 * RATE}})
    done = stack.completed("held")
    assert done["verification"]["result"] == "match"
    assert stack.violations("held", long, target) == []
    await_quotas(stack, {})
    assert daemon.terminate() == 0
