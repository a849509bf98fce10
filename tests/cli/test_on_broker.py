"""The program as a process against a real broker: set-up verbs, a sandbox, and a daemon that really answers."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd_sandbox.topics import make_topics
from tests.builders.core import STATUS
from tests.cli.recoveries import RUNNING
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.processes import wait_for

PROGRAM = [sys.executable, "-c", "from recoveryd.cli import main; main()"]
TIMEOUT_S = 180
DEEP_S = 900  # `doctor --deep` starts Spark twice and sends a command

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def env(bootstrap: str, unique: str, tmp_path: Path) -> dict[str, str]:
    """An environment with unique topics, scope and folders, so that no test shares anything with another."""
    return {
        **os.environ,
        "RECOVERYD_BOOTSTRAP_SERVERS": bootstrap,
        "RECOVERYD_TOPICS__PREFIX": unique,
        "RECOVERYD_SCOPE": unique.rstrip("-"),
        "RECOVERYD_WORK_DIR": str(tmp_path / "work"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.fixture
def ctl(env: dict[str, str]) -> Run:
    def run(*args: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *args], capture_output=True, text=True, timeout=timeout_s, check=False, env=env
        )

    return run


@pytest.mark.broker
def test_topics_apply_creates_what_is_missing_and_says_the_second_time_that_all_is_there(ctl: Run, unique: str) -> None:
    before = ctl("list")
    first = ctl("topics", "apply", "-o", "json")
    second = ctl("topics", "apply", "-o", "json")

    assert (before.returncode, before.stderr.split()[0]) == (1, "RCV-4005")
    names = {
        "control.v1",
        "status.v1",
        "events.v1",
        "directives.v1",
        "progress.v1",
        "receipts.v1",
        "control.v1.dlq",
        "canary.v1",
    }
    assert {row["topic"].removeprefix(unique): row["state"] for row in json.loads(first.stdout)} == dict.fromkeys(
        names, "created"
    )
    assert {row["state"] for row in json.loads(second.stdout)} == {"ok"}
    assert (first.returncode, second.returncode) == (0, 0)
    assert ctl("list", "-o", "json").stdout == "[]\n"


@pytest.mark.broker
def test_doctor_fails_while_topics_are_missing_and_is_content_afterwards(ctl: Run) -> None:
    before = ctl("doctor", "--http", "127.0.0.1:1")
    ctl("topics", "apply")
    after = ctl("doctor", "--http", "127.0.0.1:1", "-o", "json")

    assert before.returncode == 1
    assert "next: Run `recoveryctl topics apply`." in before.stdout
    verdicts = {row["check"]: row["verdict"] for row in json.loads(after.stdout)}
    assert after.returncode == 0, after.stdout
    assert (verdicts["brokers of main"], verdicts["topics on main"], verdicts["write to main"]) == ("ok", "ok", "ok")


@pytest.mark.broker
def test_topics_are_listed_and_compared_by_partitions_configs_and_ends(ctl: Run, bootstrap: str, unique: str) -> None:
    left, right = f"{unique}left", f"{unique}right"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, [NewTopic(left, 2, 1, config={"retention.ms": "86400000"}), NewTopic(right, 1, 1)])
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(3):
        producer.produce(left, value=b"v", partition=0)
    assert producer.flush(60) == 0

    listed = json.loads(ctl("topics", "list", "-o", "json").stdout)
    compared = ctl("topics", "diff", left, f"main:{right}", "-o", "json")
    same = ctl("topics", "diff", left, left)
    nowhere = ctl("topics", "diff", left, f"{unique}lft")
    cluster = ctl("topics", "diff", left, "mian:")

    rows = {row["topic"]: row for row in listed}
    assert (rows[left]["partitions"], rows[left]["offsets"], rows[left]["configs"]) == (
        2,
        3,
        {"retention.ms": "86400000"},
    )
    assert compared.returncode == 9, compared.stderr
    assert {row["field"]: (row["left"], row["right"]) for row in json.loads(compared.stdout)} == {
        "partitions": (2, 1),
        "config retention.ms": ("86400000", None),
        "partition 0 end": (3, 0),
        "partition 1 start": (0, None),
        "partition 1 end": (0, None),
    }
    assert (same.returncode, same.stderr.split()[0]) == (2, "RCV-4008")
    assert (nowhere.returncode, nowhere.stderr.split()[0]) == (3, "RCV-2001")
    assert "Did you mean" in nowhere.stderr
    assert (cluster.returncode, cluster.stderr.split()[0]) == (2, "RCV-1016")


@pytest.mark.broker
def test_a_command_that_nobody_answers_is_on_the_topic_and_said_to_be(ctl: Run, unique: str) -> None:
    ctl("topics", "apply")

    result = ctl("pause", "r-1", "--reason", "r", "--timeout", "1s")

    assert result.returncode == 8
    assert f"the command is offset 0 of {unique}control.v1" in result.stderr


@pytest.mark.broker
def test_all_are_told_where_no_daemon_answers(ctl: Run, bootstrap: str, unique: str) -> None:
    ctl("topics", "apply")
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in ("a", "b", "c"):
        key, value = STATUS.encode(replace(RUNNING, id=name))
        producer.produce(f"{unique}status.v1", value=value, key=key)
    assert producer.flush(60) == 0

    result = ctl("stop", "--all", "--reason", "leak", "--yes", "--timeout", "2s", "-o", "json")

    error = json.loads(result.stderr.splitlines()[-1])["error"]
    assert (result.returncode, json.loads(result.stdout), error["code"]) == (8, [], "RCV-4010")
    assert [(one["recovery"], one["fate"], one["offset"]) for one in error["commands"]] == [
        ("a", "sent", 0), ("b", "sent", 1), ("c", "sent", 2),
    ]  # fmt: skip


def _hears_ctrl_c() -> None:
    """Make SIGINT work in the child: a test run started in the background ignores it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.broker
def test_ctrl_c_detaches_a_real_watch(ctl: Run, env: dict[str, str], bootstrap: str, unique: str) -> None:
    ctl("topics", "apply")
    key, value = STATUS.encode(RUNNING)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{unique}status.v1", value=value, key=key)
    assert producer.flush(60) == 0

    watching = subprocess.Popen(
        [*PROGRAM, "watch", RUNNING.id],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        preexec_fn=_hears_ctrl_c,  # noqa: PLW1509  (no thread runs here yet)
    )
    assert watching.stdout is not None
    first = watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=TIMEOUT_S)

    assert "running 50%" in first
    assert watching.returncode == 130
    assert said == "\nDetached; flights-rerun goes on. Attach again with `recoveryctl watch flights-rerun`.\n"


@pytest.mark.broker
def test_a_sandbox_comes_up_is_filled_has_live_traffic_and_goes_down(ctl: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "sandbox")
    up = ctl("sandbox", "up", "--dir", folder)
    try:
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", up.stdout), up.stderr
        address = up.stdout.strip()
        again = ctl("sandbox", "up", "--dir", folder)
        seeded = ctl("sandbox", "seed", "--limit", "100", "--bootstrap", address)
        live = ctl("sandbox", "live", "--rate", "50", "--for", "5s", "--bootstrap", address)
    finally:
        down = ctl("sandbox", "down", "--dir", folder)

    assert again.stdout == up.stdout
    assert seeded.stdout == "flights: 100 records in 4 partitions\n"
    assert live.returncode == 0
    assert int(live.stdout.split()[0]) > 10
    assert (down.returncode, down.stderr) == (0, "Stopped.\n")
    assert ctl("sandbox", "down", "--dir", folder).stderr == "No sandbox broker was running.\n"


@pytest.fixture
def daemon(ctl: Run, env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A daemon that leads; gives its HTTP address."""
    assert ctl("topics", "apply").returncode == 0
    made = DaemonProcess(tmp_path, environment=env)
    made.configure({"faust": {"session_timeout": "90s"}})  # it goes on leading beside the Spark of `doctor --deep`
    made.start("--http", "127.0.0.1:0", "--log-format", "json")

    def said() -> list[dict[str, Any]]:
        return [json.loads(line) for line in made.log.read_text().splitlines() if line.startswith("{")]

    try:
        made.wait_for(lambda: any(line.get("message") == "leads" for line in said()), "lead", TIMEOUT_S)
        yield f"http://{next(line['http'] for line in said() if 'http' in line)}"
    finally:
        made.terminate(TIMEOUT_S)


@pytest.mark.broker
@pytest.mark.e2e
def test_a_daemon_plans_refuses_and_tells_and_the_exit_codes_say_so(ctl: Run, daemon: str, unique: str) -> None:
    source, target = f"{unique}flights", f"{unique}copy"
    assert ctl("sandbox", "seed", "--topic", source, "--limit", "200").returncode == 0
    range_ = (
        "--source",
        source,
        "--from",
        "earliest",
        "--to",
        "latest",
        "--target",
        target,
        "--create",
        "--reason",
        "try",
    )

    planned = ctl("replay", *range_, "--id", "r-1", "--plan-only")
    stale = ctl("replay", *range_, "--id", "r-2", "--plan-hash", "sha256:old", "--yes")
    refused = ctl("replay", *range_, "--from", "offset:99999", "--id", "r-3", "--yes")
    unknown = ctl("pause", "nobody", "--reason", "r")
    twice = [ctl("pause", "nobody", "--reason", "r", "--command-id", "same") for _ in range(2)]
    listed = ctl("list", "--state", "planned", "-o", "name")
    over_http = ctl("get", "r-1", "--http", daemon, "-o", "json")
    described = ctl("describe", "r-1")
    found: dict[str, str] = {}

    def is_content() -> bool:
        """Asked again: a machine that stands still for a minute has a check that does not end in its time."""
        checked = ctl("doctor", "--deep", "--http", daemon, "-o", "json", timeout_s=DEEP_S)
        found.clear()
        found.update({row["check"]: f"{row['verdict']}: {row['found']}" for row in json.loads(checked.stdout)})
        others = {told.partition(":")[0] for check, told in found.items() if check != "unit"}
        return checked.returncode == 0 and others == {"ok"}

    wait_for(is_content, 120, lambda: str(found))

    assert planned.returncode == 0, planned.stderr
    assert "200 records" in planned.stdout
    assert "--plan-hash sha256:" in planned.stderr
    assert (stale.returncode, refused.returncode, unknown.returncode) == (6, 4, 3)
    assert [result.returncode for result in twice] == [3, 0]
    assert listed.stdout == "r-1\n"
    assert json.loads(over_http.stdout)["state"] == "planned"
    assert "planning -> planned" in described.stdout
    assert found["unit"].startswith("skipped:")
    assert {"clock", "clock of the daemon", "executors of default", "command"} <= set(found)
