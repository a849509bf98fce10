"""`make demo-app`: an application of Kafka Streams with a bug is kept in a savepoint, mended, processed again,
compared, and put back as it was; commands go over the control topic, and everything is removed at the end.

What is promised is compared with the topics themselves, and what does not hold is said in a sentence.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from recoveryd_sandbox.control import ENDED, carry_out, make_command
from recoveryd_sandbox.demo_app_stack import AppStack
from recoveryd_sandbox.demo_screen import Screen
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.foreground import run
from recoveryd_sandbox.shop import BUG, RIGHT, TOTALS, UNIT, Shop, sums
from recoveryd_sandbox.shop.orders import ORDERS_TOTAL

MENDED = f"{TOTALS}.v2"
MORE_ORDERS = 500
STEP_DEADLINE_S = 900.0  # enough for a busy machine; a step usually takes seconds
_POLL_S = 0.1
Status = dict[str, Any]


class Story:
    """Commands about the shop's application, and what a person does in between."""

    def __init__(self, stack: AppStack, shop: Shop, screen: Screen) -> None:
        self.stack, self.shop, self.screen = stack, shop, screen
        self.broken: list[str] = []
        self._told: set[tuple[str, str]] = set()

    def command(self, verb: str, run: str, **data: Any) -> None:
        self.screen.say(f"{self.screen.strong(verb)} {run}: {data['reason']}")
        carry_out(self.shop.bootstrap, make_command("//demo", verb, run, data), STEP_DEADLINE_S)

    def await_step(self, run: str, step: str) -> Status:
        """Until the workflow waits there."""
        return self._follow(run, lambda status: bool((status.get("waiting_for") or {}).get("step") == step), step)

    def await_state(self, run: str, state: str = "completed") -> Status:
        return self._follow(run, lambda status: bool(status["state"] == state), state)

    def stop_application(self, run: str) -> None:
        self.await_step(run, "stop_application")
        self._person("stops the application")
        self.shop.app.stop()

    def clean_and_start(self, run: str, factor: int, output: str) -> None:
        """What `clean_local_state` and `start_application` ask for; returns when `confirm_output` asks."""
        self.await_step(run, "clean_local_state")
        self._person("removes the state directory, and says so")
        shutil.rmtree(self.shop.app.state_dir)
        self.command("ack", run, reason="state directory removed", step="clean_local_state")
        self.await_step(run, "start_application")
        self._person(f"starts the version that multiplies by {factor}, with the output {output}")
        self.shop.deploy(factor, output)
        self.shop.app.start()
        self.await_step(run, "confirm_output")

    def says(self, topic: str, wanted: dict[str, str]) -> bool:
        """Whether a reader of the topic sees these sums, now or soon."""
        try:
            self.shop.await_totals(wanted, topic)
        except SandboxError:
            return False
        return True

    def promise(self, sentence: str, *, holds: bool) -> None:
        if self.screen.promise(sentence, holds=holds):
            self.broken.append(sentence)

    def _person(self, does: str) -> None:
        self.screen.say(f"  a person {does}")

    def _follow(self, run: str, until: Callable[[Status], bool], what: str) -> Status:
        """Raises SandboxError past the deadline, or when it ended otherwise."""
        give_up_at_s, seen = time.monotonic() + STEP_DEADLINE_S, "nothing of it was seen"
        while time.monotonic() < give_up_at_s:
            status = self.stack.daemon.status(run)
            if status is not None:
                self._tell_steps(run, status)
                seen = f"it is {status['state']}: {status['why']}"
                if until(status):
                    return status
                if status["state"] in ENDED - {"completed"}:
                    raise SandboxError(f"{run} ended as {status['state']}: {status['why']}")
            elif not self.stack.daemon.is_running():
                code = self.stack.daemon.exit_code()
                raise SandboxError(f"the daemon left with {code} before {run} came to {what}", self.stack.daemon.tail())
            time.sleep(_POLL_S)
        late = f"{run} did not come to {what} in {STEP_DEADLINE_S:.0f} s; {seen}"
        raise SandboxError(late, self.stack.daemon.tail())

    def _tell_steps(self, run: str, status: Status) -> None:
        for step in status.get("steps") or ():
            if step["state"] == "done" and (run, step["name"]) not in self._told:
                self._told.add((run, step["name"]))
                self.screen.step(step)


def main() -> int:
    """0 when every promise held, 1 when not, 130 after Ctrl-C."""
    screen = Screen()

    def demo() -> bool:
        with AppStack() as stack:
            broken = _tell(stack, screen)
            screen.say("\nStopping everything the demo started ...")
        screen.verdict(broken)
        return not broken

    return run(demo, screen.say, screen.fail)


def _tell(stack: AppStack, screen: Screen) -> list[str]:
    """The sentences that do not hold."""
    screen.title("1  A real application of Kafka Streams, with a bug")
    shop = stack.start()
    wrong, right = sums(BUG), sums(RIGHT)
    screen.say(f"{screen.strong(UNIT)} added up {ORDERS_TOTAL:,} orders by customer, each ten times too high:")
    screen.say(f"  {TOTALS} says {wrong['c000']}, right is {right['c000']}; its state is as wrong as its output")
    stack.start_daemon(shop)
    story = Story(stack, shop, screen)
    _keep(story)
    _take_back(story)
    _reprocess(story)
    _return(story)
    return story.broken


def _keep(story: Story) -> None:
    story.screen.title("2  A savepoint: offsets and state of one moment")
    story.command("savepoint", "saved", unit=UNIT, name="before-v2", reason="before v2")
    story.stop_application("saved")
    cut = story.await_state("saved")["cut"]
    is_whole = cut["is_exact"] or cut["is_exact_if_clean"]
    story.promise("the savepoint is exact: it was stopped cleanly, and nobody wrote meanwhile", holds=is_whole)


def _take_back(story: Story) -> None:
    story.screen.title("3  The obvious thing, and back: offsets alone would count each order onto the old state")
    before = story.shop.committed()
    story.command("reset", "obvious", unit=UNIT, to="earliest", state="keep", reason="process all again")
    story.await_state("obvious")
    moved = story.shop.committed()
    story.command("rollback", "obvious", reason="the state is still there")
    story.await_state("obvious", "rolled_back")
    is_back = moved != before and story.shop.committed() == before
    story.promise("the reset moved each offset, and the rollback put each one back", holds=is_back)


def _reprocess(story: Story) -> None:
    story.screen.title("4  Everything again with the mended version, into a topic of its own")
    outputs = {TOTALS: {"new": MENDED}}
    story.command("reprocess", "again", unit=UNIT, outputs=outputs, reason="sums ten times too high")
    story.clean_and_start("again", RIGHT, MENDED)
    story.promise(f"all {len(sums(RIGHT))} sums in {MENDED} are right", holds=story.says(MENDED, sums(RIGHT)))
    story.promise(f"{TOTALS} is as it was", holds=story.shop.totals() == sums(BUG))
    story.command("ack", "again", reason="compared with the orders", step="confirm_output")
    story.await_state("again")


def _return(story: Story) -> None:
    story.screen.title("5  And back to the old version, which goes on as if it had never been stopped")
    story.command(
        "restore_savepoint",
        "back",
        savepoint="before-v2",
        to_unit=UNIT,
        outputs={TOTALS: "append"},
        reason="billing wants v1 until Monday",
    )
    story.stop_application("back")
    story.clean_and_start("back", BUG, TOTALS)
    story.command("ack", "back", reason="as before", step="confirm_output")
    story.await_state("back")
    story.shop.order(ORDERS_TOTAL, ORDERS_TOTAL + MORE_ORDERS)
    holds = story.says(TOTALS, sums(BUG, ORDERS_TOTAL + MORE_ORDERS))
    story.promise(f"{MORE_ORDERS} more orders count once each, on the state of before", holds=holds)


if __name__ == "__main__":
    sys.exit(main())
