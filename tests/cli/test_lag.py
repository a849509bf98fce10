"""`recoveryctl lag` with the real HTTP server of a daemon that watched a group for a while."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd.cli.send.connect import Tools, open_backend
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.window import LagSample
from recoveryd.live.wire.page import lag_document
from recoveryd.runtime.health import Health, Sources
from tests.builders.core import to_document
from tests.builders.live_world import BOARD, LiveWorld
from tests.cli.scripted import run_with
from tests.cli.served import LEADER, served


@dataclass
class Daemon:
    document: dict[str, Any] = field(default_factory=dict)
    health: Health = LEADER
    url: str = ""


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    with served(
        Sources(lambda: made.health, dict, lambda: b"", to_document, "text/plain", lambda: made.document)
    ) as made.url:
        yield made


def watched(*, looks: int) -> dict[str, Any]:
    """What a daemon says after `looks` samples of a group that is 300 records behind in one of two partitions."""
    world = LiveWorld()
    ends = 1_000
    for _ in range(looks):
        ends += 10
        at_ms = world.now_ms
        seen = ((0, LagSample(ends - 300, at_ms - 10, ends, at_ms)), (1, LagSample(ends, at_ms - 10, ends, at_ms)))
        world.feed(ReaderSampled(BOARD, (0, 1), seen))
        world.live(5)
    return lag_document(world.state, world.params.live, world.now_ms)


def run(*args: str) -> tuple[int, str, str]:
    result = run_with(Tools(open_backend=open_backend, is_interactive=lambda: False), *args)
    return result.exit_code, result.stdout, result.stderr


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split() for line in text.splitlines() if line.split()}


def test_every_group_is_a_row_with_its_verdict_and_how_sure_it_is(daemon: Daemon) -> None:
    daemon.document = watched(looks=20)
    group = daemon.document["groups"][0]
    code, shown, _ = run("lag", "--http", daemon.url)
    assert code == 0
    row = rows(shown)[BOARD.group]
    assert row[1:3] == [BOARD.topic, group["verdict"]]
    assert row[3] == str(group["lag_records"]) == "300"
    assert "100%" in row


def test_a_group_shows_each_partition(daemon: Daemon) -> None:
    daemon.document = watched(looks=20)
    code, shown, _ = run("lag", BOARD.group, "--http", daemon.url)
    assert code == 0
    by_first = rows(shown)
    partitions = {str(p["partition"]): p for p in daemon.document["groups"][0]["partitions"]}
    for name, found in partitions.items():
        assert by_first[name][1:6] == [
            found["verdict"], str(found["rule"]), f"{found['position']:,}", f"{found['end']:,}", f"{found['lag_records']:,}",
        ]  # fmt: skip


def test_a_group_nothing_was_heard_of_is_unknown_and_its_lag_a_dash(daemon: Daemon) -> None:
    daemon.document = watched(looks=0)
    _, shown, _ = run("lag", "--http", daemon.url)
    assert rows(shown)[BOARD.group][2:5] == ["unknown", "-", "-"]


def test_json_is_what_the_api_says_and_names_are_the_groups(daemon: Daemon) -> None:
    daemon.document = watched(looks=5)
    assert json.loads(run("lag", "--http", daemon.url, "-o", "json")[1]) == daemon.document
    assert run("lag", BOARD.group, "--http", daemon.url, "-o", "name") == (0, f"{BOARD.group}\n", "")


def test_the_address_comes_from_the_config_when_none_is_given(daemon: Daemon, tmp_path: Path) -> None:
    daemon.document = watched(looks=5)
    config = tmp_path / "recoveryd.yaml"
    config.write_text(f"http: {{listen: '{daemon.url.removeprefix('http://')}'}}\n")
    assert run("lag", "--config", str(config), "-o", "name") == (0, f"{BOARD.group}\n", "")


def test_a_group_that_is_not_watched_is_exit_code_3_and_those_that_are_named(daemon: Daemon) -> None:
    daemon.document = watched(looks=5)
    code, shown, said = run("lag", "others", "--http", daemon.url)
    assert (code, shown) == (3, "")
    assert said == f"RCV-4013 The daemon watches no group `others`.\n  next: Watched: {BOARD.group}.\n"


def test_nothing_watched_is_said_and_is_no_error(daemon: Daemon) -> None:
    daemon.document = {"at": "2026-11-21T06:00:00.000Z", "groups": []}
    code, _, said = run("lag", "--http", daemon.url)
    assert (code, said.startswith("The daemon watches no consumer group")) == (0, True)


@pytest.mark.parametrize(
    ("health", "document"),
    [(replace(LEADER, role="standby"), {"groups": []}), (LEADER, {})],
)
def test_a_standby_or_an_older_daemon_is_not_taken_for_no_lag(
    daemon: Daemon, health: Health, document: dict[str, Any]
) -> None:
    daemon.health, daemon.document = health, document
    code, shown, said = run("lag", "--http", daemon.url)
    assert (code, shown) == (1, "")
    assert said.startswith("RCV-2011")


def test_no_daemon_is_exit_code_1() -> None:
    assert run("lag", "--http", "http://127.0.0.1:9")[0] == 1
