"""A replay that was stopped half-way is tried again from the command line: the target has every record once. With its
log, its plans and both topics compared by the same program.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recoveryd_sandbox.daemon_process import run_tool
from tests.e2e.asking import copied
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.log_reader import read_log
from tests.e2e.stack import Stack
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]


def contents(bootstrap: str, topic: str) -> dict[int, list[object]]:
    return {p: [record.content for record in records] for p, records in read_log(bootstrap, topic).items()}


def test_a_stopped_replay_is_finished_by_another_one_and_nothing_is_copied_twice(
    stack: Stack, daemon: DaemonProcess, plain: str
) -> None:
    target, config = f"{stack.mark}-retried", ["--config", str(stack.write_config("cli"))]
    ask = ["--http", f"http://{daemon.http}"]
    stack.control.replay("half", plain, target, target_create=True, limits={"max_records_per_s": 200, "mode": "fixed"})
    daemon.wait_for(lambda: copied(stack, target) > 0, "copy something", 120)
    stack.control.command("stop", "half", {"reason": "a test wants it"})
    daemon.wait_for(lambda: daemon.recovery("half")["state"] == "stopped", "stop", 120)
    before = contents(stack.bootstrap, target)
    assert 0 < sum(map(len, before.values())) < sum(map(len, contents(stack.bootstrap, plain).values()))

    differs = subprocess.run(
        [str(Path(sys.executable).with_name("recoveryctl")), "topics", "diff", plain, target, "-o", "json", *config],
        capture_output=True,
        text=True,
        timeout=patient_s(60),
        check=False,
    )
    assert differs.returncode == 9, differs.stderr
    assert any(row["field"].endswith(" end") for row in json.loads(differs.stdout))

    run_tool("recoveryctl", "retry", "half", "--id", "rest", "--yes", *config, deadline_s=patient_s(60))
    run_tool("recoveryctl", "throttle", "rest", "--lift", "--reason", "enough time", *config, deadline_s=patient_s(60))
    run_tool("recoveryctl", "wait", "rest", *config, deadline_s=patient_s(60))
    assert daemon.recovery("rest")["state"] == "completed"
    assert contents(stack.bootstrap, target) == contents(stack.bootstrap, plain)

    lines = run_tool("recoveryctl", "logs", "rest", "--lines", "5", *ask, *config, deadline_s=patient_s(60))
    assert lines.strip()
    listed = json.loads(run_tool("recoveryctl", "topics", "list", "-o", "json", *config, deadline_s=patient_s(60)))
    [row] = [row for row in listed if row["topic"] == target]
    assert row["partitions"] == len(contents(stack.bootstrap, plain))
