"""The runs whose histories are recorded: a replay that is steered and loses its daemon, one that follows beside live
traffic, and runs that copy nothing: of verifications and a watch, and of a workflow, holds and a schedule.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.builders.history import create_topics
from tests.e2e.by_hand import copy_by_hand
from tests.e2e.committing_group import Group
from tests.e2e.data import fill_plain
from tests.e2e.foreign_group import ForeignGroup, LiveWriter
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.webhook_receiver import SECRET, WebhookReceiver


def steered(bootstrap: str, folder: Path, file: Path) -> None:
    """A replay that is throttled, paused, resumed, loses its daemon and is proved; meanwhile, refused commands and a
    replay that is stopped.
    """
    with Stack(bootstrap, folder, _writing(file)) as stack:
        fill_plain(bootstrap, "orders", 3, 2_000)
        create_topics(bootstrap, {"copy": 3, "other": 3})
        first = stack.daemon("one")
        stack.control.replay("dry", "orders", "copy", dry_run=True)
        stack.follower.wait_state("dry", "planned")
        stack.control.replay("lost", "nowhere", "copy")
        stack.follower.wait_state("lost", "rejected")
        stack.control.replay("steered", "orders", "copy", limits={"max_records_per_s": 300})
        stack.follower.wait_state("steered", "running")
        stack.control.command("pause", "steered", {"reason": "a look"})
        stack.follower.wait_state("steered", "paused")
        stack.control.command("resume", "steered", {"reason": "it is well"})
        stack.follower.wait_state("steered", "running")
        first.kill()
        stack.daemon("two")
        stack.control.replay("stopped", "orders", "other", limits={"max_records_per_s": 100})
        stack.follower.wait_state("stopped", "running")
        stack.control.command("stop", "stopped", {"reason": "enough"})
        stack.follower.wait_state("stopped", "stopped")
        stack.control.command("throttle", "steered", {"reason": "quick now", "limits": {"max_records_per_s": None}})
        stack.completed("steered")


def followed(bootstrap: str, folder: Path, file: Path) -> None:
    """A replay under the controller, beside a protected group and a canary, until it has caught up."""
    settings = {
        "monitor": {"topics": [{"topic": "live", "group": "board", "slo": "20s"}], "canary": {"latency_slo": "500ms"}},
        "control": {"period": "1s", "loop_delay": "3s", "max_bytes_per_s": "1MB"},
    }
    with Stack(bootstrap, folder, {**_writing(file), **settings}) as stack:
        fill_plain(bootstrap, "live", 2, 3_000)
        with LiveWriter(bootstrap, "live", 2, 5.0), ForeignGroup(bootstrap, "live", "board", None):
            stack.daemon("one")
            stack.control.replay("followed", "live", "live.copy", stop="caught_up", target_create=True)
            stack.completed("followed", 180.0)


def beside(bootstrap: str, folder: Path, file: Path) -> None:
    """Verifications of copies by others, one of them wrong, and a watch that calls a webhook."""
    key = folder / "key"
    key.write_text(SECRET + "\n")
    with WebhookReceiver() as receiver:
        settings = {"webhooks": {"stop-it": {"url": receiver.url, "secret_file": str(key)}}}
        with Stack(bootstrap, folder, {**_writing(file), **settings}) as stack:
            fill_plain(bootstrap, "cold", 2, 1_000)
            copy_by_hand(bootstrap, "cold", "mirror")
            fill_plain(bootstrap, "amiss", 2, 990)
            stack.daemon("one")
            stack.control.command("verify", "right", {"reason": "r", **_sides("cold", "mirror")})
            stack.completed("right")
            stack.control.command("verify", "wrong", {"reason": "r", **_sides("cold", "amiss")})
            stack.completed("wrong")
            watch = {
                "reason": "r",
                "group": "rerun",
                "topic": "cold",
                "until": "caught_up",
                "then": {"webhook": "stop-it"},
            }
            stack.control.command("watch", "watched", watch)
            with ForeignGroup(bootstrap, "cold", "rerun", None):
                wait_for(lambda: bool(receiver.deliveries), 120.0, lambda: "the webhook was not called")
                stack.follower.wait_state("watched", "completed")


def undone(bootstrap: str, folder: Path, file: Path) -> None:
    """A group that is reset, and put back by the next daemon; a hold that is released, and a schedule that
    places one.
    """
    with Stack(bootstrap, folder, _writing(file)) as stack:
        group = Group(bootstrap, stack)
        first = stack.daemon("one")
        group.reset("there", "earliest")
        group.done("there")
        stack.control.command("hold", "held", {"reason": "it is looked at", "topics": [group.topic]})
        stack.follower.wait_state("held", "running")
        first.kill()
        stack.daemon("two")
        stack.control.command("release", "held", {"reason": "it is well"})
        stack.follower.wait_state("held", "completed")
        group.rolled_back("there")
        command = {"verb": "hold", "data": {"topics": [group.topic], "ttl": "5s"}}
        every_minute = {"reason": "once a minute", "cron": "* * * * *", "command": command}
        stack.control.command("schedule", "often", every_minute)
        run_ended = {"subject": "often", "kind": "schedule_run_ended"}
        stack.follower.wait(lambda: stack.follower.events(**run_ended), 180.0, "a run that ended")
        stack.control.command("unschedule", "often", {"reason": "enough"})
        stack.follower.wait_state("often", "stopped")


RUNS: Mapping[str, Callable[[str, Path, Path], None]] = {
    "steered": steered,
    "followed": followed,
    "beside": beside,
    "undone": undone,
}


def _writing(file: Path) -> dict[str, Any]:
    return {"log": {"events": str(file)}}


def _sides(source: str, target: str) -> dict[str, Any]:
    return {"source": {"topic": source}, "target": {"topic": target}}
