"""Waits for a step of a workflow, and says that it is done, as the person does whom it asks."""

from tests.e2e.follower import Document
from tests.e2e.stack import Stack

_ENDED_BADLY = {"failed", "rejected"}


def waits_at(stack: Stack, run: str, step: str, deadline_s: float = 240.0) -> Document:
    """The status of `run` when it waits at `step`."""

    def look() -> Document | None:
        status = stack.follower.status(run)
        assert status is None or status["state"] not in _ENDED_BADLY, status["why"]
        waiting = None if status is None else status["waiting_for"]
        return status if waiting is not None and waiting["step"] == step else None

    return stack.follower.wait(look, deadline_s, f"{run} waits at {step}") or {}


def ack(stack: Stack, run: str, step: str) -> None:
    """As soon as it is asked for."""
    waits_at(stack, run, step)
    stack.control.command("ack", run, {"reason": "done", "step": step})


def becomes(stack: Stack, run: str, state: str, deadline_s: float = 240.0) -> Document:
    """Also from a state in which a workflow would be over."""

    def look() -> Document | None:
        status = stack.follower.status(run)
        assert status is None or status["state"] == state or status["state"] not in _ENDED_BADLY, status["why"]
        return status if status is not None and status["state"] == state else None

    found = stack.follower.wait(look, deadline_s, f"{run} is {state}") or {}
    stack.follower.catch_up()
    return found


def step_of(stack: Stack, run: str, name: str) -> Document:
    """That step of the newest status; nothing while there is none."""
    status = stack.follower.status(run)
    steps = [] if status is None else status["steps"]
    return next((step for step in steps if step["name"] == name), {})
