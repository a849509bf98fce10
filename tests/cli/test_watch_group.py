"""`watch-group`, and how the other verbs show a watch."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.watches.model import Delivery, DeliveryState, Watch, WatchedPartition, WatchProgress
from recoveryd.watches.spec import CallHook, UntilCaughtUp, UntilOffsets, WatchSpec
from tests.builders.core import to_document
from tests.cli.recoveries import NOW_MS, make_notice
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID = "reports-caught-up"
RUNNING = Watch(
    id=ID,
    state=State.RUNNING,
    why="1 of 2 partitions are where they are wanted; flights partition 1: the lag shrinks, 20 records wait",
    version=3,
    created_ms=NOW_MS,
    updated_ms=NOW_MS + 5_000,
    command=CommandRef("c-1", "//ops/alice", "stop the rerun"),
    spec=WatchSpec("main", "reports", ("flights",), UntilCaughtUp(), CallHook("stop-it"), NOW_MS + 3_600_000),
    progress=WatchProgress(
        20, 4.0, 1.0, 0, 1, 2, (WatchedPartition("flights", 1, 30, 50, None, "catching_up", False),)
    ),
)
COMPLETED = replace(
    RUNNING,
    state=State.COMPLETED,
    why="its condition held, and the webhook stop-it was told",
    version=5,
    progress=WatchProgress(0, 0.0, 1.0, 7, 2, 2),
    stop=Stop(StopReason.ZERO_LAG, "caught_up", NOW_MS + 9_000, {"evaluations": 7, "span_ms": 30_000}),
    delivery=Delivery("stop-it", "d1", DeliveryState.DELIVERED, NOW_MS + 9_000, NOW_MS + 9_500, 204, 2, "204"),
)
UNFULFILLED = replace(
    RUNNING,
    state=State.FAILED,
    why="the deadline came first",
    version=6,
    error_code=Code.WATCH_UNFULFILLED.value,
    stop=Stop(StopReason.DEADLINE, None, NOW_MS + 9_000, {}),
)
ARGS = ("watch-group", "reports", "--topic", "flights", "--reason", "r", "--id", ID)


def data_of(*flags: str) -> dict[str, Any]:
    """The data of the record that these flags print."""
    result = run(None, *ARGS, *flags, "--print-record", "-o", "json", env={"RECOVERYD_BOOTSTRAP_SERVERS": "a:1"})
    assert result.exit_code == 0, result.stderr
    data: dict[str, Any] = json.loads(json.loads(result.stdout)["value"])["data"]
    return data


def test_the_shortest_line_waits_for_zero_lag_and_notifies() -> None:
    assert data_of() == {
        "reason": "r", "cluster": "main", "group": "reports", "topic": "flights", "until": "caught_up", "then": "notify",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--until", "caught_up"), {"until": "caught_up"}),
        (("--until", "offsets:0=10,1=20"), {"until": {"offsets": {"0": 10, "1": 20}}}),
        (("--until", "offsets:flights/0=10"), {"until": {"offsets": {"flights": {"0": 10}}}}),
        (("--until", "deadline:2h"), {"until": {"deadline": "2h"}}),
        (("--then", "webhook:stop-it"), {"then": {"webhook": "stop-it"}}),
        (("--then", "stop:shop"), {"then": {"stop": "shop"}}),
        (("--deadline", "2h"), {"deadline": "2h"}),
        (("--tolerance-records", "1"), {"tolerance_records": 1}),
        (("--topic", "airports"), {"topics": ["flights", "airports"]}),
        (
            ("--topic", "a", "--until", "offsets:flights/0=1,a/0=2"),
            {"topics": ["flights", "a"], "until": {"offsets": {"flights": {"0": 1}, "a": {"0": 2}}}},
        ),
    ],
)
def test_each_flag_has_its_field(flags: tuple[str, ...], part: dict[str, Any]) -> None:
    data = data_of(*flags)
    assert {name: data[name] for name in part} == part


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--until", "latest"), "`latest` is no condition"),
        (("--until", "offsets:0"), "`0` is no offset of a partition"),
        (("--until", "offsets:0=1,0=2"), "names partition 0 twice"),
        (("--until", "offsets:0=1,flights/1=2"), "for some offsets only"),
        (("--until", "offsets:airports/0=1"), "not among its topics"),
        (("--until", "deadline:tomorrow"), "data.until"),
        (("--then", "https://x"), "`https://x` is no action"),
        (("--then", "webhook:https://x"), "names a URL"),
        (("--then", "webhook:"), "is no action"),
        (("--tolerance-records", "-1"), "tolerance-records"),
        (("--deadline", "2026-11-21T06:00:00"), "RCV-1015"),
    ],
)
def test_a_line_that_says_nothing_good_is_a_usage_error_and_sends_nothing(flags: tuple[str, ...], says: str) -> None:
    backend = ScriptedBackend()
    result = run(backend, *ARGS, *flags, env={"RECOVERYD_BOOTSTRAP_SERVERS": "a:1"})
    assert (result.exit_code, backend.sent) == (2, [])
    assert says in result.stderr


def test_without_a_topic_or_a_reason_it_says_so() -> None:
    assert "--topic is missing" in run(None, "watch-group", "reports", "--reason", "r").stderr
    assert "--reason is missing" in run(None, "watch-group", "reports", "--topic", "t", "--bootstrap", "a:1").stderr


def send(*flags: str, becomes: list[Watch], **more: Any) -> tuple[Any, ScriptedBackend]:
    backend = ScriptedBackend(becomes=[to_document(watch) for watch in becomes], **more)
    return run(backend, *ARGS, *flags, env={"RECOVERYD_BOOTSTRAP_SERVERS": "a:1"}), backend


def test_it_sends_one_command_and_shows_the_watch() -> None:
    result, backend = send(becomes=[RUNNING])
    assert (result.exit_code, [c["type"] for c in backend.sent]) == (0, ["io.recoveryd.command.watch.v1"])
    assert ID in result.stdout
    assert f"`recoveryctl watch {ID}`" in result.stderr
    assert f"`recoveryctl stop {ID} --reason TEXT`" in result.stderr


@pytest.mark.parametrize(
    ("ends", "exit_code"),
    [
        (COMPLETED, 0),
        (replace(COMPLETED, state=State.STOPPED), 0),
        (UNFULFILLED, 1),
        (replace(COMPLETED, state=State.FAILED, error_code=Code.WEBHOOK_FAILED.value), 1),
    ],
)
def test_waiting_ends_with_the_code_of_the_state(ends: Watch, exit_code: int) -> None:
    result, _ = send("--wait", becomes=[RUNNING, ends])
    assert result.exit_code == exit_code, result.stderr
    assert "running 50%" in result.stderr


def test_waiting_too_long_is_exit_code_8() -> None:
    result, _ = send("--wait", "--timeout", "50ms", becomes=[RUNNING])
    assert result.exit_code == 8


def test_a_webhook_that_is_not_configured_is_exit_code_4() -> None:
    result, _ = send(
        becomes=[], answer=refuse_with(Code.UNKNOWN_WEBHOOK, "then.webhook: the config has no webhook 'x'")
    )
    assert result.exit_code == 4
    assert "RCV-1030" in result.stderr


def test_describe_shows_what_is_waited_for_and_what_is_not_there() -> None:
    document = to_document(replace(RUNNING, spec=replace(RUNNING.spec, until=UntilOffsets({"flights": {1: 50}}))))
    backend = ScriptedBackend({ID: document}, timeline=[make_notice("watch_started", {"why": "r"}, ID)])
    shown = run(backend, "describe", ID, env={"COLUMNS": "200"}).stdout
    for part in (
        "reports on main",
        "flights 1=50",
        "calls the webhook stop-it",
        "1 of 2 partitions",
        "catching_up",
        "watch_started",
    ):
        assert part in shown, shown
    assert "no limit" not in shown


def test_describe_shows_the_delivery_and_why_it_ended() -> None:
    shown = run(ScriptedBackend({ID: to_document(COMPLETED)}), "describe", ID, env={"COLUMNS": "200"}).stdout
    for part in ("zero_lag", "delivered", "d1", "204"):
        assert part in shown, shown


def test_list_get_and_wait_know_watches() -> None:
    backend = ScriptedBackend({ID: to_document(COMPLETED)})
    listed = run(backend, "list", env={"COLUMNS": "200"})
    assert "100%" in listed.stdout
    got = json.loads(run(backend, "get", ID, "-o", "json").stdout)
    assert (got["kind"], got["watch"]["group"], "internal" in got) == ("watch", "reports", False)
    assert run(backend, "wait", ID).exit_code == 0
    assert run(ScriptedBackend({ID: to_document(UNFULFILLED)}), "wait", ID).exit_code == 1
