"""A real daemon tells a webhook of what becomes of its recoveries, and only of what the filter takes."""

from pathlib import Path

import pytest

from tests.e2e.asking import await_progress, copied
from tests.e2e.data import fill_plain
from tests.e2e.stack import Stack
from tests.e2e.webhook_receiver import SECRET, WebhookReceiver

pytestmark = [pytest.mark.broker, pytest.mark.e2e]


def test_a_webhook_hears_of_the_transitions_it_wants(stack: Stack, tmp_path: Path) -> None:
    source = f"{stack.mark}-told"
    fill_plain(stack.bootstrap, source, 1, 10)
    (tmp_path / "key").write_text(SECRET)
    with WebhookReceiver() as receiver:
        webhook = {"url": receiver.url, "secret_file": str(tmp_path / "key")}
        heard = {"verbs": ["replay"], "states": ["planned", "rejected"]}
        with stack.running(settings={"webhooks": {"ops": {**webhook, "transitions": heard}}}) as daemon:
            stack.control.replay("plan-only", source, f"{stack.mark}-to", target_create=True, dry_run=True)
            stack.control.replay("nowhere", f"{stack.mark}-none", f"{stack.mark}-to2", target_create=True)
            # One whose answer came late is told again, with the same id.
            daemon.wait_for(lambda: len({d.id for d in receiver.deliveries}) == 2, "tell both", 30)
            counted = "recoveryd_webhook_transitions_total"
            daemon.wait_for(lambda: sum(daemon.metrics(counted).values()) == 2.0, "count both", 30)
            assert all('outcome="delivered"' in labels for labels in daemon.metrics(counted))
        told = {d.event["subject"]: (d.event["data"]["to"], d.is_signed) for d in receiver.deliveries}
    assert told == {"plan-only": ("planned", True), "nowhere": ("rejected", True)}


@pytest.mark.spark
@pytest.mark.scenario("S-WIKI-C1b")
def test_a_webhook_hears_of_a_pause_once_it_is_real_with_the_positions(stack: Stack, tmp_path: Path) -> None:
    run, source, target = "told-of-pause", f"{stack.mark}-paused", f"{stack.mark}-paused-to"
    fill_plain(stack.bootstrap, source, 2, 3_000)
    (tmp_path / "key").write_text(SECRET)
    with WebhookReceiver() as receiver:
        heard = {"url": receiver.url, "secret_file": str(tmp_path / "key"), "transitions": {"states": ["paused"]}}
        with stack.running(settings={"webhooks": {"ops": heard}}) as daemon:
            stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 40})
            await_progress(stack, run, 100)
            stack.control.command("pause", run)
            daemon.wait_for(lambda: bool(receiver.deliveries), "tell of the pause", 30)
            event = receiver.deliveries[0].event
            told = {row["partition"]: row["position"] for row in event["data"]["positions"]}
            assert (event["subject"], event["data"]["to"], sum(told.values())) == (run, "paused", copied(stack, target))
            stack.control.command("stop", run)
            stack.follower.wait_state(run, "stopped")
        assert {d.event["data"]["to"] for d in receiver.deliveries} == {"paused"}
        assert all(d.is_signed for d in receiver.deliveries)
