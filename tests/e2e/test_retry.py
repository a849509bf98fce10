"""A replay that was stopped half-way is tried again from the command line: the target has every record once. With its
log, its plans and both topics compared by the same program.
"""

import json

import pytest

from tests.e2e.asking import copied
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.log_reader import read_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]


def contents(bootstrap: str, topic: str) -> dict[int, list[object]]:
    return {p: [record.content for record in records] for p, records in read_log(bootstrap, topic).items()}


def said(stack: Stack, *words: str) -> str:
    """What a command line that succeeds prints to stdout."""
    told = stack.recoveryctl(*words)
    assert told.exit_code == 0, told.output
    return told.stdout


def test_a_stopped_replay_is_finished_by_another_one_and_nothing_is_copied_twice(
    stack: Stack, daemon: DaemonProcess, plain: str
) -> None:
    target = f"{stack.mark}-retried"
    stack.control.replay("half", plain, target, target_create=True, limits={"max_records_per_s": 200, "mode": "fixed"})
    daemon.wait_for(lambda: copied(stack, target) > 0, "copy something", 120)
    stack.control.command("stop", "half", {"reason": "a test wants it"})
    daemon.wait_for(lambda: daemon.recovery("half")["state"] == "stopped", "stop", 120)
    before = contents(stack.bootstrap, target)
    assert 0 < sum(map(len, before.values())) < sum(map(len, contents(stack.bootstrap, plain).values()))

    differs = stack.recoveryctl("topics", "diff", plain, target, "-o", "json")
    assert differs.exit_code == 9, differs.stderr
    assert any(row["field"].endswith(" end") for row in json.loads(differs.stdout))

    # Two who try it again while nobody reads the commands: the daemon takes one of them.
    assert daemon.terminate() == 0
    tries = [stack.recoveryctl("retry", "half", "--yes", "--timeout", "2s") for _ in range(2)]
    assert [one.exit_code for one in tries] == [8, 8], [one.output for one in tries]
    daemon.start()
    daemon.await_leader()
    third = stack.recoveryctl("retry", "half", "--yes")
    assert third.exit_code == 4, third.output
    listed = json.loads(said(stack, "list", "-o", "json"))
    [rest] = [one["recovery"] for one in listed if one["recovery"] != "half"]
    # The very command that the daemon took, as it is told where nobody knows whether it was written.
    said(stack, "retry", "half", "--yes", "--command-id", daemon.recovery(rest)["command"]["id"], "--id", rest)
    assert {one["recovery"] for one in json.loads(said(stack, "list", "-o", "json"))} == {"half", rest}
    said(stack, "throttle", rest, "--lift", "--reason", "enough time")
    said(stack, "wait", rest)
    assert daemon.recovery(rest)["state"] == "completed"
    assert contents(stack.bootstrap, target) == contents(stack.bootstrap, plain)

    assert said(stack, "logs", rest, "--lines", "5", "--http", f"http://{daemon.http}").strip()
    listed = json.loads(said(stack, "topics", "list", "-o", "json"))
    [row] = [row for row in listed if row["topic"] == target]
    assert row["partitions"] == len(contents(stack.bootstrap, plain))
