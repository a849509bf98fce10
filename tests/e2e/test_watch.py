"""Watches on a real broker: a foreign application reads cold data while live records arrive; with a webhook, and a
daemon that dies between decision and delivery.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.foreign_group import ForeignGroup, LiveWriter, commit
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.webhook_receiver import SECRET, WebhookReceiver

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS = 3
COLD_EACH = 2_000
LIVE_PER_S = 20.0


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_earlier_deliveries(receiver: WebhookReceiver) -> None:
    receiver.deliveries.clear()


@pytest.fixture(scope="module")
def settings(receiver: WebhookReceiver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    key: Path = tmp_path_factory.mktemp("secret") / "key"
    key.write_text(SECRET + "\n")
    return {
        "webhooks": {"stop-it": {"url": receiver.url, "secret_file": str(key)}},
        "faust": {"instance_id": "one"},  # the group knows the next daemon as the same member
    }


@pytest.fixture(scope="module")
def running(stack: Stack, settings: dict[str, Any]) -> Iterator[list[DaemonProcess]]:
    """The daemon that leads, last in the list; the test may kill it and add the next."""
    daemons = [stack.daemon("w1", settings=settings)]
    yield daemons
    daemons[-1].terminate()


def watch(group: str, topic: str, **more: Any) -> dict[str, Any]:
    return {"reason": "a test wants it", "group": group, "topic": topic, "then": {"webhook": "stop-it"}} | more


def is_behind(progress: Document) -> bool:
    return (progress["lag_records"] or 0) > 0 and progress["coverage"] == 1.0


@pytest.mark.scenario("S-WIKI-4", "S-WIKI-4b")
def test_a_cold_group_that_catches_up_while_others_write_has_its_webhook_called_once(
    stack: Stack, running: list[DaemonProcess], receiver: WebhookReceiver
) -> None:
    topic, group = f"{stack.mark}-cold", f"{stack.mark}-rerun"
    fill_plain(stack.bootstrap, topic, PARTITIONS, COLD_EACH)
    with ExitStack() as around:
        around.enter_context(LiveWriter(stack.bootstrap, topic, PARTITIONS, LIVE_PER_S))
        reader = around.enter_context(ForeignGroup(stack.bootstrap, topic, group, records_per_s=100))
        answer = stack.follower.wait_answer(
            stack.control.command("watch", "w-cold", watch(group, topic, until="caught_up", deadline="15m"))
        )
        assert answer["type"] == "io.recoveryd.event.command_accepted.v1", answer
        behind = stack.follower.wait(
            lambda: next((d for d in stack.follower.statuses("w-cold") if is_behind(d["watch"]["progress"])), None),
            60,
            "a lag that is known of every partition",
        )
        assert behind["state"] == "running"
        assert receiver.deliveries == []
        reader.records_per_s = None
        done = stack.follower.wait_state("w-cold", "completed", 120)
    assert (done["kind"], done["stop"]["reason"], done["stop"]["mode"]) == ("watch", "zero_lag", "caught_up")
    evidence = done["stop"]["evidence"]
    assert evidence["evaluations"] >= 3
    assert evidence["span_ms"] >= 30_000
    assert [row["partition"] for row in sorted(evidence["partitions"], key=lambda row: row["partition"])] == [0, 1, 2]
    assert all(row["position"] >= COLD_EACH and row["lag_records"] <= 15 * LIVE_PER_S for row in evidence["partitions"])
    delivery = receiver.deliveries[0]  # who answers late is asked again, with the same id
    assert {(each.id, each.is_signed) for each in receiver.deliveries} == {(delivery.id, True)}
    assert (delivery.event["subject"], delivery.event["data"]["evidence"]) == ("w-cold", evidence)
    assert (done["watch"]["delivery"]["id"], done["watch"]["delivery"]["state"]) == (delivery.id, "delivered")
    kinds = [e["type"].removeprefix("io.recoveryd.event.") for e in stack.follower.events(subject="w-cold")]
    assert kinds == [
        "command_accepted.v1", "watch_started.v1", "watch_fulfilled.v1", "webhook_delivered.v1", "watch_completed.v1",
    ]  # fmt: skip
    assert running[-1].recovery("w-cold")["state"] == "completed"


def test_a_daemon_killed_between_decision_and_answer_delivers_again_under_the_same_id(
    stack: Stack, running: list[DaemonProcess], receiver: WebhookReceiver, settings: dict[str, Any]
) -> None:
    topic, group = f"{stack.mark}-range", f"{stack.mark}-gone"
    fill_plain(stack.bootstrap, topic, PARTITIONS, 100)
    commit(stack.bootstrap, group, topic, {0: 100, 1: 60, 2: 10})
    wanted = {"offsets": {"0": 80, "1": 60, "2": 90}}
    receiver.hold()
    stack.follower.wait_answer(stack.control.command("watch", "w-range", watch(group, topic, until=wanted)))
    partly = stack.follower.wait(
        lambda: next((d for d in stack.follower.statuses("w-range") if d["watch"]["progress"]["done"] == 2), None),
        30,
        "two of three partitions reached",
    )
    assert partly["watch"]["progress"]["partitions"][0]["wanted"] == 90
    commit(stack.bootstrap, group, topic, {2: 95})
    wait_for(lambda: len(receiver.deliveries) >= 1, 30, lambda: "the webhook was not called")
    running[-1].kill()
    before = len(receiver.deliveries)
    pending = stack.follower.wait(
        lambda: next((d for d in stack.follower.statuses("w-range") if d["watch"]["delivery"]), None),
        30,
        "the decision in the journal",
    )
    assert (pending["state"], pending["watch"]["delivery"]["state"]) == ("running", "pending")
    running.append(stack.daemon("w2", settings=settings))
    wait_for(lambda: len(receiver.deliveries) > before, 30, lambda: "the webhook was not called again")
    receiver.release()
    done = stack.follower.wait_state("w-range", "completed", 30)
    first, *again = receiver.deliveries
    assert {(each.id, each.body) for each in again} == {(first.id, first.body)}
    assert all(each.is_signed for each in receiver.deliveries)
    assert (done["stop"]["mode"], done["watch"]["delivery"]["id"]) == ("bounded", first.id)


def test_what_the_config_does_not_have_and_what_steers_lanes_is_refused(
    stack: Stack, running: list[DaemonProcess]
) -> None:
    def answer(command: str) -> tuple[str, str]:
        found = stack.follower.wait_answer(command)
        return found["type"].split(".")[3], found["data"]["code"]

    waiting = watch("nobody", "nothing", until="caught_up", then="notify", deadline="1m")
    running[-1].await_leader()
    refused = watch("g", "t", until="caught_up", then={"webhook": "stopit"})
    assert answer(stack.control.command("watch", "w-no", refused)) == ("command_rejected", "RCV-1030")
    # One straight after the other, since it fails after a few looks.
    begun, steered = (
        stack.control.command(*c) for c in (("watch", "w-never", waiting), ("pause", "w-never", {"reason": "r"}))
    )
    assert answer(begun) == ("command_accepted", "")
    assert answer(steered) == ("command_rejected", "RCV-1031")
    gone = stack.follower.wait_state("w-never", "failed", 30)
    assert (gone["error_code"], gone["stop"]["reason"]) == ("RCV-2001", "source_unavailable")
