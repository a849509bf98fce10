"""A schedule on a real broker, at real edges of minutes: runs that continue each other under live traffic, while the
daemon is killed in a run and between two.
"""

from typing import Any

import pytest

from tests.e2e.data import LiveProducer, fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import read_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS = 2
COLD_EACH = 12_000
LIVE_PER_S = 100.0
RUN_S = 50  # over before the next one is due, and long enough to start an application on a busy machine
SETTINGS = {"faust": {"instance_id": "one"}}  # the group knows the next daemon as the same member


def fired(stack: Stack, count: int) -> list[Document]:
    """The events of this many firings, once they are there."""
    return stack.follower.wait(
        lambda: found if len(found := of_kind(stack, "schedule_fired")) >= count else None, 90, f"{count} firings"
    )


def of_kind(stack: Stack, kind: str) -> list[Document]:
    return stack.follower.events(subject="nightly", kind=kind)


def ended(stack: Stack, count: int) -> Document:
    """The schedule once this many of its runs are over."""

    def look() -> Document | None:
        document = stack.follower.status("nightly")
        return document if document is not None and len(of_kind(stack, "schedule_run_ended")) >= count else None

    found = stack.follower.wait(look, 120, f"{count} ended runs")
    assert found is not None
    return found


@pytest.mark.scenario("S-WIKI-5", "S-WIKI-5a", "S-WIKI-6")
def test_runs_continue_each_other_over_kill_9_and_a_deadline_survives_it(stack: Stack) -> None:
    source, target = f"{stack.mark}-in", f"{stack.mark}-out"
    fill_plain(stack.bootstrap, source, PARTITIONS, COLD_EACH)
    replay: dict[str, Any] = {
        "source": {"topic": source, "from": {"schedule": "last_end"}, "to": "latest"},
        "target": {"topic": target, "create": True, "on_existing": "append"},
        "limits": {"max_records_per_s": 200},  # so that a run comes to its deadline
    }
    data = {"cron": "* * * * *", "max_runtime": f"{RUN_S}s", "command": {"verb": "replay", "data": replay}}
    with LiveProducer(stack.bootstrap, source, PARTITIONS, LIVE_PER_S):
        first = stack.daemon("s1", settings=SETTINGS)
        answer = stack.follower.wait_answer(stack.control.command("schedule", "nightly", data))
        assert answer["type"] == "io.recoveryd.event.command_accepted.v1", answer
        run = fired(stack, 1)[0]["data"]["recovery"]
        stack.follower.wait_state(run, {"starting", "running"}, 60)
        first.kill()
        second = stack.daemon("s2", settings=SETTINGS)
        over = ended(stack, 1)
        recovery = stack.follower.status(run)
        assert recovery is not None
        last = over["schedule"]["last_run"]
        assert (last["recovery"], last["outcome"], recovery["state"]) == (run, "stopped", "stopped")
        assert recovery["stop"]["reason"] in {"deadline", "max_runtime"}
        assert recovery["limits"]["requested"]["deadline"] == last["deadline"]
        reached = over["schedule"]["last_end"]["offsets"]
        assert reached == {str(row["partition"]): row["position"] for row in recovery["progress"]["partitions"]}
        second.kill()
        third = stack.daemon("s3", settings=SETTINGS)
        following = fired(stack, 2)[1]["data"]["recovery"]
        stack.follower.wait_state(following, {"starting", "running"}, 60)
        stack.follower.wait_answer(stack.control.command("unschedule", "nightly", {}))
        stack.control.command("throttle", following, {"limits": {"max_records_per_s": None}})
        over = ended(stack, 2)
    plan = stack.follower.status(following)["plan"]  # type: ignore[index]
    assert {str(row["partition"]): row["start"] for row in plan["source"]["partitions"]} == reached
    assert over["state"] == "stopped"
    due = [event["data"]["due"] for event in of_kind(stack, "schedule_fired")]
    assert len(due) == len(set(due)) == over["schedule"]["counts"]["fired"]
    assert_copied_once(stack, source, target, over["schedule"]["last_end"]["offsets"])
    third.terminate()


def assert_copied_once(stack: Stack, source: str, target: str, ends: dict[str, int]) -> None:
    """The target holds exactly the records before the last end, in order."""
    wanted = {int(partition): (0, end) for partition, end in ends.items()}
    assert all(end > 0 for _, end in wanted.values())
    copied, there = read_log(stack.bootstrap, target), read_log(stack.bootstrap, source, wanted)
    for partition in wanted:
        assert [r.content for r in copied[partition]] == [r.content for r in there[partition]]
