"""The events that a daemon decided on, written to a file, and every decision repeated from it."""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd.capabilities import make_decider
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.states import State
from recoveryd.params import params_beside
from recoveryd.recovery.params import Params
from recoveryd.runtime.history import RecordedCore, take_again
from recoveryd.runtime.tagged import from_tagged, to_tagged
from recoveryd.wire.status_topic import encode_daemon
from tests.builders.core import FOLLOWING, NOW_MS, STATUS, command, make_spec
from tests.builders.live_world import LiveWorld
from tests.builders.world import World

MOST = 100_000_000


@contextlib.contextmanager
def recorded(world: World, path: Path, most: int = MOST) -> Iterator[list[Decision]]:
    """Write the world's events from now on to `path`, too. Returns the list of its decisions."""
    core = RecordedCore(world.decider, params_beside(world.params), path, most)
    world.state = core.restore(world.state.daemon, dict(world.decider.known(world.state)), {})
    taken: list[Decision] = []

    decide = core.decide

    def noted(state: object, event: object, now_ms: int) -> Decision:
        decision = decide(state, event, now_ms)  # type: ignore[arg-type]
        taken.append(decision)
        return decision

    core.decide = noted  # type: ignore[method-assign]
    world.decider = core  # type: ignore[assignment]
    yield taken
    core.close()


def again(path: Path) -> list[Decision]:
    with path.open() as lines:
        return [taken.decision for taken in take_again(lines, make_decider)]


def test_a_whole_life_is_decided_again_to_the_same_states_and_effects(tmp_path: Path) -> None:
    world = World()
    with recorded(world, tmp_path / "h") as taken:
        world.feed(command("replay"))
        world.run_until(State.RUNNING)
        world.feed(command("pause"))
        world.run_until(State.PAUSED)
        world.feed(command("resume"))
        world.run_until(State.COMPLETED)
        assert again(tmp_path / "h")[1:] == taken


@pytest.mark.parametrize("was_there", [False, True])
def test_only_the_daemons_user_may_read_it(tmp_path: Path, was_there: bool) -> None:
    before = os.umask(0o022)
    try:
        if was_there:
            (tmp_path / "events.jsonl").touch()
        with recorded(World(), tmp_path / "events.jsonl"):
            assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_so_is_the_life_beside_live_traffic_that_a_restart_interrupts(tmp_path: Path) -> None:
    world = LiveWorld()
    with recorded(world, tmp_path / "h") as taken:
        world.live(70)
        world.feed(command("replay", spec=FOLLOWING))
        world.live(30)
        docs = [encode_daemon(world.state.daemon), *map(STATUS.encode, world.decider.known(world.state).values())]
        fold = STATUS.fold(docs)
        world.state = world.decider.restore(fold.daemon, fold.nouns, {})
        before = len(taken)
        world.live(20)
        found = again(tmp_path / "h")[1:]
        assert found[:before] == taken[:before]
        assert found[before].reason == "a daemon begins to lead"
        assert found[before + 1 :] == taken[before:]


def test_a_file_that_is_full_ends_and_the_daemon_does_not(tmp_path: Path) -> None:
    world = World()
    with recorded(world, tmp_path / "h", 6_000) as taken:
        world.feed(command("replay"))
        world.run_until(State.COMPLETED)
        assert 6_000 <= (tmp_path / "h").stat().st_size < 12_000
        found = again(tmp_path / "h")[1:]
        assert 0 < len(found) < len(taken)
        assert found == taken[: len(found)]


def test_a_full_file_does_not_grow_with_each_start(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with recorded(World(), path, 100):
        size = path.stat().st_size
    with recorded(World(), path, 100):
        assert path.stat().st_size == size


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    world = World()
    with recorded(world, tmp_path / "none" / "h") as taken:
        world.feed(command("replay"))
        world.run_until(State.COMPLETED)
        assert taken


def test_a_full_disk_costs_no_decision() -> None:
    world = World()
    with recorded(world, Path("/dev/full")) as taken:
        world.feed(command("replay"))
        world.run_until(State.COMPLETED)
        assert taken


def test_the_daemon_after_one_that_ended_within_a_line_goes_on_in_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with recorded(World(), path):
        pass
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[-1][:-5])
    world = World()
    with recorded(world, path) as taken:
        world.feed(command("replay"))
        assert again(path)[2:] == taken


def test_the_last_line_may_have_no_end(tmp_path: Path) -> None:
    path = tmp_path / "h"
    world = World()
    with recorded(world, path) as taken:
        world.feed(command("replay"))
    path.write_text(path.read_text() + '{"at_ms":')
    assert again(path)[1:] == taken


def test_a_line_between_others_has_to_be_readable(tmp_path: Path) -> None:
    path = tmp_path / "h"
    world = World()
    with recorded(world, path):
        world.feed(command("replay"))
    first, *rest = path.read_text().splitlines()
    with pytest.raises(ValueError, match=r"^line 2: "):
        list(take_again(iter([first, "{", *rest]), make_decider))


def test_what_the_rules_raise_changes_nothing_as_in_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "h"
    world = World()
    with recorded(world, path):
        world.feed(command("replay"))

    class Broken:
        restore = world.decider.restore

        def decide(self, *_: object) -> Decision:
            raise AssertionError("no plan")

    with path.open() as lines:
        found = list(take_again(lines, lambda _params: Broken()))  # type: ignore[arg-type,return-value]
    assert [type(taken.bug) for taken in found[:2]] == [type(None), AssertionError]
    assert found[1].decision.state is found[0].decision.state
    assert found[1].decision.reason == "recoveryd could not decide on this: AssertionError: no plan"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "line 1"),
        ("nothing", "line 1"),
        ('{"at_ms":1,"event":{"$":"Tick"}}', "line 1: a history begins with the parameters"),
        (json.dumps(to_tagged({"params": Params(), "webhooks": ()})) + '\n{"at_ms":1,"event":{"$":"Tock"}}', "line 2"),
    ],
)
def test_what_is_no_history_is_named_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(take_again(iter(text.splitlines()), make_decider))


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, [2, 3.5], float("inf")),
        {"a": {1: b"\x00"}, "$": frozenset({"x"})},
        State.PAUSED,
        make_spec(),
        (NOW_MS, FOLLOWING),
        Params(),
    ],
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert from_tagged(json.loads(json.dumps(to_tagged(value)))) == value


def test_what_the_core_is_never_told_has_no_form() -> None:
    with pytest.raises(TypeError, match="Path has no tagged form"):
        to_tagged(Path())
