"""Every state of both kinds of recovery against every event: the core has an answer to each, and moves only as the
table says.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.kernel.events import BecameLeader, Event, Tick
from recoveryd.kernel.states import TERMINAL, State
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery.events import AttemptExited, EffectFailed, FactsGathered, LedgerRead, TargetReady
from recoveryd.recovery.lifecycle import MOVES
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, Verification
from tests.builders.core import command, make_facts, make_spec, make_target, make_verification
from tests.builders.deciding import make_decider
from tests.builders.world import PARAMS, World, reachable

S = State


def begun(verb: str, params: object = PARAMS, **spec: object) -> World:
    world = World(params=params, speed=5)  # type: ignore[arg-type]
    world.verify_s = 100
    make = make_spec if verb == "replay" else make_verification
    world.feed(command(verb, spec=make(**spec)))  # type: ignore[arg-type]
    return world


def led_to(verb: str, *steps: State | str) -> World:
    """A recovery that went through these states, and was sent these commands."""
    world = begun(verb)
    for number, step in enumerate(steps, 1):
        if isinstance(step, State):
            world.run_until(step)
        else:
            world.feed(command(step, "r1", f"c{number}", offset=number))
    return world


def waiting(verb: str) -> World:
    return begun(verb, replace(PARAMS, approval_above_records=10))


def planning(verb: str) -> World:
    world = World(speed=5)
    world.lost_effects = True
    world.feed(command(verb))
    world.lost_effects = False
    return world


def stopping(verb: str) -> World:
    world = led_to(verb, S.RUNNING)
    world.failing = {"ReadLedger"}
    world.feed(command("stop", offset=5))
    return world


def failed(verb: str) -> World:
    world = begun(verb)
    world.run_until(S.RUNNING if verb == "replay" else S.VERIFYING)
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, "topic_recreated", "it is another topic"))
    world.run_until(S.FAILED)
    return world


WORLDS: dict[str, Callable[[], World]] = {
    "nothing": World,
    **{
        f"{verb} {name}": made
        for verb in ("replay", "verify")
        for name, made in {
            "planning": lambda verb=verb: planning(verb),
            "planned": lambda verb=verb: begun(verb, dry_run=True),
            "awaiting_approval": lambda verb=verb: waiting(verb),
            "starting": lambda verb=verb: begun(verb),
            "verifying": lambda verb=verb: led_to(verb, S.VERIFYING),
            "verifying, pausing": lambda verb=verb: led_to(verb, S.VERIFYING, "pause"),
            "verifying, paused": lambda verb=verb: led_to(verb, S.VERIFYING, "pause", S.PAUSED),
            "starting, pausing": lambda verb=verb: led_to(verb, "pause"),
            "stopped": lambda verb=verb: led_to(verb, S.VERIFYING, "stop"),
            "failed": lambda verb=verb: failed(verb),
            "rejected": lambda verb=verb: begun(verb, partitions=(9,)),
        }.items()
    },
    "replay running": lambda: led_to("replay", S.RUNNING),
    "replay pausing": lambda: led_to("replay", S.RUNNING, "pause"),
    "replay paused": lambda: led_to("replay", S.RUNNING, "pause", S.PAUSED),
    "replay stopping": lambda: stopping("replay"),
}


def events() -> list[Event]:
    steering = [
        command(verb, "r1", f"e-{verb}", offset=100, plan_hash="sha256:x", max_bytes_per_s=5.0)
        for verb in ("replay", "verify", "pause", "resume", "stop", "throttle", "approve", "reject")
    ]
    beats = [
        LaneHeartbeat(
            "r1", attempt, 0, 99, state, False, 1.0, 1.0, (), "", phase=phase, verified_offsets=5, offsets_to_verify=9
        )
        for attempt in (0, 1, 2)
        for phase, state in (
            ("copy", "copying"),
            ("copy", "done"),
            ("verify", "verifying"),
            ("verify", "paused"),
            ("verify", "done"),
        )
    ]
    beats += [replace(beats[0], attempt=1, lane=lane, ledger_from=5) for lane in (-3, -1, 0, 1, 2, 2**62)]
    reports = [
        DriverHeartbeat("r1", 1, phase, 99, found, code, "told")
        for phase, found, code in (
            ("starting", None, ""), ("lanes", None, ""), ("drained", None, ""), ("verifying", None, ""), ("exiting", None, ""),
            ("verified", Verification("match", 1, 1, "d"), ""), ("verified", Verification("mismatch", 1, 1, "d"), ""),
            ("verified", None, ""), ("failed", None, "internal"), ("failed", None, "data_lost"),
        )
    ]  # fmt: skip
    return [
        *steering, *beats, *reports, Tick(), BecameLeader(9, "control"), AttemptExited("r1", 1, 1, "gone"), TargetReady("r1", "id", 2),
        LedgerRead("r1", 1, False, (), (), 2), LedgerRead("r1", 1, False, (), ("a gap",), 2), FactsGathered("r1", make_facts()),
        FactsGathered("r1", make_facts(target=make_target(1))), OffsetsSampled((), (("main", "flights"),)),
        *(EffectFailed("r1", effect, 1, "RCV-2011", "no", retriable) for effect in ("gather_facts", "launch", "read_ledger") for retriable in (True, False)),
    ]  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_every_event_in_every_state_moves_only_as_the_table_says(name: str) -> None:
    world = WORLDS[name]()
    before = world.state.of(RECOVERY).recoveries.get("r1")
    for event in events():
        for later_ms in (0, 3_600_000):
            decision = make_decider(PARAMS).decide(world.state, event, world.now_ms + later_ms)
            assert all(answer.hint for answer in decision.answers if answer.kind in {"rejected", "expired"}), event
            after = decision.state.of(RECOVERY).recoveries.get("r1")
            if before is None or after is None:
                continue
            assert after.state is not S.FAILED or after.error_code, (event, after.why)
            assert after.state in reachable(before.state) | {before.state} or _is_new_life(before, after), (
                event,
                after.why,
            )
            assert after.kind == after.spec.kind


def _is_new_life(before: Recovery, after: Recovery) -> bool:
    return after.control_offset != before.control_offset and (
        before.state not in TERMINAL or before.attempt.number == 0
    )


@pytest.mark.parametrize(("name", "back"), [
    ("replay pausing", S.RUNNING), ("replay paused", S.RUNNING),
    *((f"{verb} verifying, {state}", S.VERIFYING) for verb in ("replay", "verify") for state in ("pausing", "paused")),
    ("replay starting, pausing", S.RUNNING), ("verify starting, pausing", S.VERIFYING),
])  # fmt: skip
def test_resume_goes_back_to_what_was_paused(name: str, back: State) -> None:
    world = WORLDS[name]()
    world.feed(command("resume", offset=50))
    assert world.recovery().state is back
    assert world.recovery().wanted.value == ("verify" if back is S.VERIFYING else "run")


def test_the_worlds_are_where_they_say_and_no_state_is_left_out() -> None:
    found = {name: made().state.of(RECOVERY).recoveries.get("r1") for name, made in WORLDS.items()}
    wrong = {n: r.state for n, r in found.items() if r is not None and r.state.value != n.split()[-1]}
    assert wrong == {}
    done = World()
    done.feed(command("replay"))
    states = {r.state for r in found.values() if r is not None} | {done.run_until(S.COMPLETED).state}
    # requested lasts no longer than a decision, and nothing is sent into an expired or completed one
    assert set(MOVES) - states == {
        S.REQUESTED,
        S.EXPIRED,
        S.WAITING,
        S.CLOSING,
        S.ROLLED_BACK,
    }  # the last of workflows only
