"""The daemon dies by SIGKILL before and after each step of a reprocess that changes something. The next one goes on,
and everything is made, taken away and set once.

Each daemon dies at its own point while it works on its own unit; the next daemon ends that and dies at an earlier one,
so that no daemon passes the point of the one before it on the way.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import describe
from tests.chosen import chosen_points
from tests.e2e.clients import client, commit
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e, pytest.mark.faults]

CHANGES = ("delete_internal_topics", "recreate_topics", "create_outputs", "set_offsets")
# Before a step it takes two: the step of the unit before, which the new daemon ends, and its own.
POINTS = [point for step in reversed(CHANGES) for point in (f"step.after.{step}:1", f"step.before.{step}:2")]
# What these made or took away is there, and not noted; `set_offsets` is in `test_workflows_killed`.
DONE_AND_NOT_NOTED = [f"step.after.{step}:1" for step in CHANGES if step != "set_offsets"]
PARTITIONS, EACH = 2, 20


class Shop:
    """A unit of which a group read half of the input; its output, its log and its state have records."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.input, self.totals, self.log, self.state = (
            f"{name}-{part}" for part in ("in", "totals", "log", "changelog")
        )

    @property
    def unit(self) -> dict[str, Any]:
        return {
            "kind": "group", "group": self.name, "inputs": [self.input], "stateful": True,
            "outputs": {topic: {"behaviour": "append_only"} for topic in (self.totals, self.log)},
            "internal_topics": [self.state],
        }  # fmt: skip

    def fill(self) -> None:
        for topic in (self.input, self.totals, self.log, self.state):
            fill_plain(self.bootstrap, topic, PARTITIONS, EACH)
        consumer = self._consumer()
        commit(consumer, [TopicPartition(self.input, p, EACH // 2) for p in range(PARTITIONS)])
        consumer.close()

    def committed(self) -> dict[int, int]:
        consumer = self._consumer()
        found = consumer.committed([TopicPartition(self.input, p) for p in range(PARTITIONS)], timeout=60)
        consumer.close()
        return {where.partition: where.offset for where in found}

    def ids(self) -> dict[str, str | None]:
        admin = AdminClient(client(self.bootstrap))
        names = [self.input, self.totals, self.log, f"{self.log}-2", self.state]
        return {name: None if s is None else s.topic_id for name, s in describe(admin, names, 60.0).items()}

    def _consumer(self) -> Consumer:
        return Consumer({**client(self.bootstrap), "group.id": self.name})


@pytest.fixture(scope="module")
def shops(bootstrap: str, module_unique: str) -> list[Shop]:
    return [Shop(bootstrap, f"{module_unique}{number}") for number, _ in enumerate(POINTS)]


@pytest.fixture(scope="module")
def stack(bootstrap: str, shops: list[Shop], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("stack")
    with Stack(bootstrap, folder, {"units": {shop.name: shop.unit for shop in shops}}) as made:
        yield made


@pytest.fixture(scope="module")
def deaths(
    request: pytest.FixtureRequest, stack: Stack, shops: list[Shop]
) -> Iterator[dict[str, tuple[Shop, dict[str, str | None], int]]]:
    """For each chosen point the unit on which a daemon died there, the ids of its topics before, and the daemon's exit
    code.
    """
    found = {}
    static = {"faust": {"instance_id": "one"}}
    wanted = chosen_points(request)
    wanted |= {point.replace("before", "after").replace(":2", ":1") for point in wanted}  # what they end first
    for shop, point in zip(shops, POINTS, strict=True):
        if point not in wanted:
            continue
        shop.fill()
        before = shop.ids()
        doomed = stack.daemon(f"doomed-{shop.name}", environment={"RECOVERYD_FAILPOINT": point}, settings=static)
        outputs = {shop.totals: "recreate", shop.log: {"new": f"{shop.log}-2"}}
        stack.control.command("reprocess", shop.name, {"reason": "r", "unit": shop.name, "outputs": outputs})
        found[point] = (shop, before, doomed.await_exit())
    with stack.running(name="last", settings=static):
        yield found


@pytest.mark.scenario("S-WIKI-2a")
@pytest.mark.parametrize("point", [
    point if point in DONE_AND_NOT_NOTED else pytest.param(point, marks=pytest.mark.wide(
        "tests/faults/test_reprocess_killed.py::test_a_daemon_killed_around_a_change_is_followed_by_one_that_does_the_rest_once"
    ))
    for point in POINTS
])  # fmt: skip
def test_a_daemon_killed_around_a_change_is_followed_by_one_that_does_the_rest_once(
    stack: Stack, deaths: dict[str, tuple[Shop, dict[str, str | None], int]], point: str
) -> None:
    shop, before, exit_code = deaths[point]
    assert exit_code == -signal.SIGKILL

    def look() -> Document | None:
        status = stack.follower.status(shop.name)
        waiting = None if status is None else status["waiting_for"]
        return status if waiting is not None and waiting["step"] == "clean_local_state" else None

    status = stack.follower.wait(look, 120.0, f"{shop.name} waits for its local state") or {}
    stack.follower.catch_up()
    after = shop.ids()
    assert (after[shop.input], after[shop.log], after[shop.state]) == (before[shop.input], before[shop.log], None)
    assert after[shop.totals] not in {None, before[shop.totals]}
    made = {row["name"]: row["was_set"] for row in status["undo"] if row["what"] == "topic" and row["was_set"]}
    assert made == {shop.totals: after[shop.totals], f"{shop.log}-2": after[f"{shop.log}-2"]}, "what is there was noted"
    assert whole_log(shop.bootstrap, shop.totals) == dict.fromkeys(range(PARTITIONS), (0, 0))
    assert shop.committed() == dict.fromkeys(range(PARTITIONS), 0)
    done = [event["data"]["step"] for event in stack.follower.events(subject=shop.name, kind="step_done")]
    assert done[-len(CHANGES) :] == list(CHANGES)
    assert len(done) == len(set(done)), "each step is told once"
