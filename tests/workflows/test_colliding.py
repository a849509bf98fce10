"""Topics that Kafka would not make beside those that are there: every plan that is to make some says so before anything
is stopped.
"""

from collections.abc import Callable

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.colliding import names_of, refuse_collision
from recoveryd.workflows.model.commands import RestoreSavepoint
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, RestoreSpec, RunbookPath
from tests.workflows import test_upgrade_online, test_upgrade_other_id
from tests.workflows.app_world import INTERNAL, OUTPUTS, UNIT, AppWorld, Log
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import APPEND, save, saved
from tests.workflows.two_versions import TwoVersions

NEW = {"log": OutputChoice(OutputPolicy.NEW, "log.2")}
RANGE = {"topic": "orders", "ranges": {0: (10, 20)}}
Begin = Callable[[AppWorld], str]


def restore(world: AppWorld) -> str:
    spec = RestoreSpec("before", UNIT.name, {**APPEND, **NEW})
    return world.send(lambda meta: RestoreSavepoint(meta, spec), subject="w2")


def shadow(world: AppWorld) -> str:
    assert isinstance(world, RunbookWorld)
    return world.begin(RunbookPath.SHADOW, target="totals", **RANGE)


def replay(target: str | None) -> Begin:
    def begin(world: AppWorld) -> str:
        assert isinstance(world, RunbookWorld)
        return world.begin(RunbookPath.REPLAY, target=target, **RANGE)

    return begin


def upgrade(begin: Callable[[TwoVersions], str]) -> Begin:
    def begun(world: AppWorld) -> str:
        assert isinstance(world, TwoVersions)
        return begin(world)

    return begun


CASES: dict[str, tuple[Callable[[], AppWorld], Begin, str, str]] = {
    "savepoint": (AppWorld, lambda world: save(world, "v.1"), f"savepoint.v.1.{INTERNAL[0]}", f"savepoint.v_1.{INTERNAL[0]}"),
    "reprocess": (AppWorld, lambda world: world.reprocess(outputs={**OUTPUTS, **NEW}), "log.2", "log_2"),
    "restore": (saved, restore, "log.2", "log_2"),
    "replay": (RunbookWorld, replay(None), "orders.w1", "orders_w1"),
    "replay to a target": (RunbookWorld, replay("a.b"), "a.b", "a_b"),
    "shadow": (RunbookWorld, shadow, "orders.shadow-w1", "orders_shadow-w1"),
    "online": (test_upgrade_online.two_versions, upgrade(test_upgrade_online.upgrade), "orders.tail", "orders_tail"),
    "another application id": (
        test_upgrade_other_id.two_versions, upgrade(test_upgrade_other_id.upgrade),
        f"savepoint.w1-cut.{INTERNAL[0]}", f"savepoint_w1-cut.{INTERNAL[0]}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_a_topic_that_kafka_would_not_make_is_refused_before_anything_is_stopped(name: str) -> None:
    make, begin, wanted, there = CASES[name]
    world = make()
    world.topics[there] = Log("there-1", 0, 0)
    before = list(world.done)
    assert begin(world) == "rejected"
    told = world.answers[-1]
    assert (told.code, f"{wanted} cannot be made beside {there}" in told.message) == (Code.INVALID_VALUE.value, True), (
        told
    )
    assert world.done == before


@pytest.mark.parametrize("name", list(CASES))
def test_without_such_a_topic_it_begins(name: str) -> None:
    make, begin, _, there = CASES[name]
    world = make()
    world.topics[f"{there}-else"] = Log("there-1", 0, 0)
    assert begin(world) == "accepted", world.answers[-1]


@pytest.mark.parametrize(
    ("names", "there", "refused"),
    [
        (["a.b"], {"a_b"}, "a.b cannot be made beside a_b"),
        (["a.b"], {"a.b", "a-b"}, ""),
        (["a.b", "a_b"], set(), "a_b cannot be made beside a.b"),
        (["a.b_c"], {"a_b.c"}, "a.b_c cannot be made beside a_b.c"),
        (["ab"], {"a.b"}, ""),
        ([], {"a.b"}, ""),
        (["a.b"], {"a.b", "a_b"}, ""),  # as an old cluster may have them
    ],
)
def test_names_that_differ_by_dots_and_underscores_only_are_the_same(
    names: list[str], there: set[str], refused: str
) -> None:
    told = refuse_collision(names, names_of(there))
    assert (told.message if told is not None else "").startswith(refused)
    assert (told is None) is not bool(refused)
