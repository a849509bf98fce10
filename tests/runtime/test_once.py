"""One-shot mode over a scripted daemon: when it ends, and what it says."""

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from recoveryd.__main__ import EXIT_USAGE, _once_for_s, _parser, run
from recoveryd.app import once
from recoveryd.app.once import OneShot
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Leaving
from recoveryd.runtime.inbox import Inbox
from recoveryd.runtime.vitals import Vitals
from tests.builders.core import command
from tests.runtime.fakes import SlowLog, record, until, within
from tests.runtime.rig import Rig


class Scripted:
    """What one-shot mode looks at; the test changes it. Whatever was emitted is taken at once."""

    def __init__(self, role: str = "leader", remaining: Sequence[str] = (), moving: Sequence[str] = ()) -> None:
        self.vitals = Vitals(role)
        self.runtime = self.intake = self.interpreter = self.posts = self.jobs = self
        self.waiting: dict[str, int] = {"ops": 0}
        self.is_passed_over = False
        self.is_caught_up = self.is_idle = True
        self.ids, self.moving_ids = list(remaining), list(moving)
        self.events: list[object] = []
        self.inbox = self
        self.looks = self.ended = 0

    async def kill_all(self) -> None:
        self.ended += 1

    def emit(self, event: object) -> None:
        self.events.append(event)

    def __len__(self) -> int:
        self.looks += 1
        return 0

    def remaining(self) -> list[str]:
        self.looks += 1
        return self.ids

    def moving(self) -> list[str]:
        self.looks += 1
        return self.moving_ids


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(once, "QUIET_S", 0.01)


def shot(daemon: Any, seconds: float = 3_600.0) -> OneShot:
    return OneShot(daemon, time.monotonic() + seconds)


async def test_with_nothing_left_it_ends_at_once_and_is_done() -> None:
    daemon = Scripted()
    made = shot(daemon)
    await within(made.run())
    assert (made.is_done, made.left, daemon.events) == (True, [], [Leaving()])


async def test_it_ends_once_the_last_thing_is_done() -> None:
    daemon = Scripted(remaining=["r1"])
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: daemon.looks > 20)
    assert not running.done()
    daemon.ids.clear()
    await within(running)
    assert made.is_done


async def test_when_the_time_is_over_it_comes_to_rest_and_says_what_is_left() -> None:
    daemon = Scripted(remaining=["r1"], moving=["r1"])
    made = shot(daemon, 0.02)
    running = asyncio.create_task(made.run())
    await until(lambda: bool(daemon.events))
    await until(lambda: daemon.looks > 20)
    assert not running.done()
    daemon.moving_ids.clear()
    await within(running)
    assert (made.is_done, made.left) == (False, ["r1"])


async def test_it_waits_until_webhooks_have_heard_of_everything() -> None:
    daemon = Scripted()
    daemon.waiting["ops"] = 2
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: bool(daemon.events))
    seen = daemon.looks
    await until(lambda: daemon.looks > seen + 20)
    assert not running.done()
    daemon.waiting["ops"] = 0
    await within(running)
    assert made.is_done


@pytest.mark.parametrize(("role", "ended"), [("leader", 1), ("taking_over", 0)])
async def test_what_does_not_come_to_rest_in_time_is_ended_unless_another_may_lead(
    monkeypatch: pytest.MonkeyPatch, role: str, ended: int
) -> None:
    monkeypatch.setattr(once, "REST_LIMIT_S", 0.02)
    daemon = Scripted(remaining=["r1"], moving=["r1"])
    made = shot(daemon, 0.05)
    running = asyncio.create_task(made.run())
    await until(lambda: daemon.looks > 0)
    daemon.vitals.role = role
    await within(running)
    assert (made.is_done, daemon.ended) == (False, ended)


async def test_what_is_being_journaled_is_waited_for() -> None:
    """As of a hold that expires: what it kept goes on once this is journaled."""
    daemon = Scripted()
    daemon.vitals.round_began_s = 1.0
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: daemon.looks > 50)
    assert not running.done()
    daemon.ids, daemon.vitals.round_began_s = ["r1"], None
    await until(lambda: daemon.looks > 100)
    assert not running.done()
    daemon.ids.clear()
    await within(running)
    assert made.is_done


@pytest.mark.parametrize("change", [{"role": "standby"}, {"role": "taking_over"}])
async def test_a_standby_waits_and_is_not_done(change: dict[str, str]) -> None:
    daemon = Scripted(**change)
    made = shot(daemon, 0.05)
    await within(made.run())
    assert (made.is_done, made.has_led, daemon.events) == (False, False, [])


@pytest.mark.parametrize("role", ["standby", "taking_over"])
async def test_one_that_led_comes_to_rest_although_it_does_not_lead_when_its_time_is_over(role: str) -> None:
    """As in a rebalance, or while it asks the journal whether it still leads."""
    daemon = Scripted(remaining=["r1"], moving=["r1"])
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: made.has_led)
    daemon.vitals.role = role
    made.end_s = 0.0
    await until(lambda: bool(daemon.events))
    daemon.moving_ids.clear()  # what it knows is of before
    seen = daemon.looks
    await until(lambda: daemon.looks > seen + 20)
    assert not running.done()
    daemon.vitals.role = "leader"
    await within(running)
    assert (made.is_done, made.left, daemon.events) == (False, ["r1"], [Leaving()])


async def test_one_that_led_is_waited_for_no_longer_than_it_may_take_to_come_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(once, "REST_LIMIT_S", 0.02)
    daemon = Scripted(remaining=["r1"])
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: made.has_led)
    daemon.vitals.role, made.end_s = "taking_over", 0.0
    await within(running)
    assert (made.is_done, daemon.events) == (False, [Leaving()])


async def test_one_that_another_daemon_followed_leaves_the_rest_to_it() -> None:
    daemon = Scripted(remaining=["r1"], moving=["r1"])
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: made.has_led)
    daemon.vitals.role, daemon.is_passed_over, made.end_s = "standby", True, 0.0
    await within(running)
    assert not made.is_done


async def test_the_word_to_come_to_rest_waits_until_it_leads_again() -> None:
    rig = Rig()
    rig.runtime.assigned()
    tasks = [asyncio.create_task(work) for work in (rig.runtime.run(), rig.intake.run())]
    await until(lambda: rig.intake.is_caught_up)
    daemon = daemon_of(rig)
    daemon.remaining = lambda: ["r1"]
    made = shot(daemon)
    running = asyncio.create_task(made.run())
    await until(lambda: made.has_led)
    rig.runtime.revoked()
    made.end_s = 0.0
    await asyncio.sleep(0.05)
    assert (rig.heard.count(Leaving()), running.done()) == (0, False)
    rig.runtime.assigned()
    await within(running)
    assert rig.heard.count(Leaving()) == 1
    rig.runtime.stop()
    await within(tasks[0])
    tasks[1].cancel()


async def test_commands_that_wait_are_decided_first() -> None:
    daemon = Scripted()
    daemon.is_caught_up = False
    made = shot(daemon, 0.05)
    await within(made.run())
    assert not made.is_done


def daemon_of(rig: Rig) -> SimpleNamespace:
    return SimpleNamespace(
        runtime=rig.runtime,
        intake=rig.intake,
        inbox=rig.inbox,
        interpreter=SimpleNamespace(is_idle=True),
        posts=SimpleNamespace(waiting={}),
        remaining=list,
        moving=list,
    )


async def test_a_command_that_lay_on_the_topic_is_decided_however_long_that_takes_to_read() -> None:
    log = SlowLog([record(0)])
    rig = Rig(control_log=log)
    rig.events[0] = command("stop", "nobody", offset=0)
    made = shot(daemon_of(rig))
    rig.runtime.assigned()
    tasks = [asyncio.create_task(work) for work in (rig.runtime.run(), rig.intake.catch_up(), made.run())]
    await until(lambda: rig.runtime.vitals.role == "leader")
    await asyncio.wait(tasks, timeout=20 * once.QUIET_S)
    assert not tasks[-1].done()
    log.may.set()
    await within(tasks[-1])
    answers = [answer for batch in rig.journal.batches for answer in batch.answers]
    assert (made.is_done, [answer.code for answer in answers]) == (True, [Code.NO_SUCH_RECOVERY.value])
    rig.runtime.stop()
    await within(asyncio.gather(*tasks))


async def test_so_is_one_that_the_group_left_out_when_it_gave_the_partition_back() -> None:
    log = SlowLog([])
    log.may.set()
    rig = Rig(control_log=log)
    rig.events[0] = command("stop", "nobody", offset=0)
    rig.runtime.assigned()
    tasks = [asyncio.create_task(work) for work in (rig.runtime.run(), rig.intake.run())]
    await until(lambda: rig.intake.is_caught_up)
    log.may.clear()
    log.records = [record(0)]
    rig.runtime.revoked()
    rig.runtime.assigned()
    rig.inbox.nudge()
    await until(lambda: rig.runtime.vitals.role == "leader")
    made = shot(daemon_of(rig))
    running = asyncio.create_task(made.run())
    await asyncio.wait([running], timeout=20 * once.QUIET_S)
    assert not running.done()
    log.may.set()
    await within(running)
    answers = [answer for batch in rig.journal.batches for answer in batch.answers]
    assert (made.is_done, [answer.code for answer in answers]) == (True, [Code.NO_SUCH_RECOVERY.value])
    rig.runtime.stop()
    await within(tasks[0])
    tasks[1].cancel()


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [((), None), (("--once",), float("inf")), (("--once", "--max-runtime", "4m"), 240.0)],
)
def test_the_flags_say_how_long(flags: tuple[str, ...], seconds: float | None) -> None:
    assert _once_for_s(_parser().parse_args(["run", *flags])) == seconds


@pytest.mark.parametrize(
    "flags", [("--max-runtime", "4m"), ("--once", "--max-runtime", "soon"), ("--once", "--max-runtime", "0s")]
)
def test_flags_that_say_nothing_good_are_a_usage_error(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_parser().parse_args(["run", *flags])) == EXIT_USAGE == 2
    assert capsys.readouterr().err.startswith("recoveryd: --max-runtime")


def test_an_inbox_says_how_much_waits() -> None:
    inbox = Inbox()
    inbox.emit(Leaving())
    assert len(inbox) == 1
