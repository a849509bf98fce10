"""The real process against the real broker: how it starts, what it refuses, and how it ends. No Spark."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from recoveryd_sandbox.topics import make_topics
from tests.builders.core import BOOK
from tests.e2e.clients import commit
from tests.e2e.control import make_command
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = pytest.mark.broker

MEMORY_AT_MOST_KIB = 150 * 1024
METRIC = "recoveryd_units_reread_refused"
UNIT = "{{kind: group, group: {0}, inputs: [{0}-in], retention_objective: 1h}}\n"


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("start")) as made:
        yield made


def run_once(stack: Stack, name: str, *, prefix: str | None = None, **settings: object) -> tuple[int, str]:
    """Exit code and log of a daemon that is expected to leave by itself."""
    topics = {"topics": {"prefix": prefix}} if prefix else {}
    daemon = stack.new_daemon(name, {**topics, **settings})
    daemon.start()
    return daemon.await_exit(40), daemon.log.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Watched:
    """Live traffic that the daemon looks at, and the folder of its units."""

    topic: str
    group: str
    units_dir: Path


@pytest.fixture(scope="class")
def watched(bootstrap: str, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    made = Watched(f"{stack.mark}-live", f"{stack.mark}-billing", tmp_path_factory.mktemp("units.d"))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, [NewTopic(made.topic, 1, 1)])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": made.group})
    commit(consumer, [TopicPartition(made.topic, 0, 0)])
    consumer.close()
    (made.units_dir / "one.yaml").write_text(UNIT.format("one"), encoding="utf-8")
    return made


@pytest.fixture(scope="class")
def daemon(stack: Stack, watched: Watched) -> Iterator[DaemonProcess]:
    monitor = {"interval": "500ms", "topics": [{"topic": watched.topic, "group": watched.group}]}
    settings = {"monitor": monitor, "units_dir": str(watched.units_dir)}
    with stack.running(name="looked-at", settings=settings) as started:
        yield started


class TestADaemonThatIsLookedAt:
    """One for all of these, since none ends it but the last."""

    def test_it_is_live_ready_and_small(self, daemon: DaemonProcess) -> None:
        assert json.loads(daemon.get("/livez")[1])["live"] is True
        assert json.loads(daemon.get("/readyz")[1]) == {
            "ready": True,
            "role": "leader",
            "status_loaded": True,
            "journal_writable": True,
        }
        page = daemon.get("/metrics")[1]
        assert all(f"# HELP {m.name} " in page for m in BOOK.metrics)
        assert "recoveryd_leader 1.0" in page
        memory = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8"))
        assert memory is not None
        assert int(memory[1]) < MEMORY_AT_MOST_KIB

    def test_its_address_in_use_is_a_config_error_of_another(self, stack: Stack, daemon: DaemonProcess) -> None:
        code, log = run_once(stack, "taken", http={"listen": f"127.0.0.1:{daemon.port}"})
        assert (code, "http.listen" in log) == (78, True)

    def test_a_list_of_recoveries_and_one_of_them_are_served(self, stack: Stack, daemon: DaemonProcess) -> None:
        command = stack.control.replay("refused", "no-such-topic", "no-such-target", command_id="list-1")
        assert stack.follower.wait_answer(command)["data"]["code"] == "RCV-2001"
        wait_for(lambda: daemon.get("/api/v1/recoveries/refused")[0] == 200, 10)
        document = daemon.recovery("refused")
        stack.follower.wait(lambda: document == stack.follower.status("refused"), 20, "the same on the topic")
        listed = json.loads(daemon.get("/api/v1/recoveries")[1])
        assert listed["recoveries"][0] == document
        assert daemon.get("/api/v1/recoveries/none")[0] == 404

    def test_live_topics_of_the_config_have_traffic_and_lag(
        self, bootstrap: str, daemon: DaemonProcess, watched: Watched
    ) -> None:
        def told(metric: str) -> bool:
            return metric in daemon.get("/metrics")[1]

        lag = f'recoveryd_lag_records{{group="{watched.group}",topic="{watched.topic}",traffic="live"}}'
        wait_for(lambda: told(f"{lag} 0.0"), 15, lambda: daemon.get("/metrics")[1])
        producer = Producer({"bootstrap.servers": bootstrap})
        for _ in range(50):
            producer.produce(watched.topic, b"x")
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": watched.group})
        commit(consumer, [TopicPartition(watched.topic, 0, 30)])
        consumer.close()
        wanted = (f"{lag} 20.0", f'recoveryd_records_total{{topic="{watched.topic}",traffic="live"}} 50.0')
        wait_for(lambda: all(told(line) for line in wanted), 30, lambda: daemon.get("/metrics")[1])

    def test_a_hangup_makes_it_read_its_units_again_and_a_bad_one_leaves_all_as_they_were(
        self, stack: Stack, daemon: DaemonProcess, watched: Watched
    ) -> None:
        folder = watched.units_dir

        def refused() -> str:
            return next(line for line in daemon.get("/metrics")[1].splitlines() if line.startswith(METRIC))

        (folder / "two.yaml").write_text(UNIT.format("two"), encoding="utf-8")
        os.kill(daemon.pid, signal.SIGHUP)
        [event] = stack.follower.wait(lambda: stack.follower.events(kind="units_read"), 60, "the units read again")
        assert (event["subject"], event["data"]["added"], event["data"]["changed"]) == ("units", ["two"], [])
        (folder / "two.yaml").write_text("{kind: group, grup: two}\n", encoding="utf-8")
        (folder / "one.yaml").unlink()
        os.kill(daemon.pid, signal.SIGHUP)
        [event] = stack.follower.wait(lambda: stack.follower.events(kind="units_refused"), 60, "the refusal")
        assert "two.yaml" in event["data"]["message"]
        assert "grup" in event["data"]["message"]
        wait_for(lambda: refused() == f"{METRIC} 1.0", 60)
        (folder / "two.yaml").write_text(UNIT.format("two"), encoding="utf-8")
        os.kill(daemon.pid, signal.SIGHUP)
        events = stack.follower.wait(
            lambda: found if len(found := stack.follower.events(kind="units_read")) > 1 else None, 60, "those after it"
        )
        assert events[1]["data"]["removed"] == ["one"]
        wait_for(lambda: refused() == f"{METRIC} 0.0", 60)
        assert "the units stay as they are" in daemon.log.read_text(encoding="utf-8")

    def test_every_line_of_its_log_is_json_with_level_and_logger_to_its_end(
        self, stack: Stack, daemon: DaemonProcess
    ) -> None:
        answered = stack.control.command("pause", "nothing")
        stack.follower.wait_answer(answered)
        assert daemon.terminate() == 0
        lines = [json.loads(line) for line in daemon.log.read_text(encoding="utf-8").splitlines()]
        assert all({"timestamp", "level", "logger", "message"} <= set(line) for line in lines)
        [about] = [line for line in lines if line.get("command_id") == answered]
        assert (about["recovery_id"], about["level"]) == ("nothing", "info")


@pytest.mark.parametrize("number", [
    signal.SIGTERM,
    pytest.param(signal.SIGINT, marks=pytest.mark.wide(
        "tests/integration/test_daemon_start.py::test_a_signal_ends_it_cleanly_also_in_the_middle_of_three_hundred_commands"
    )),
])  # fmt: skip
def test_a_signal_ends_it_cleanly_also_in_the_middle_of_three_hundred_commands(
    stack: Stack, number: signal.Signals
) -> None:
    daemon = stack.daemon(f"signal-{number}")
    commands = [make_command("pause", f"nothing-{i}") for i in range(300)]
    stack.control.many([(json.dumps(c).encode(), None, ()) for c in commands])
    stack.follower.wait_answer(commands[0]["id"])
    os.kill(daemon.pid, number)
    assert daemon.await_exit(10) == 0
    with stack.running(name=f"after-{number}"):
        for command in commands:
            stack.follower.wait_answer(command["id"])
    assert [len(stack.follower.answers(c["id"])) for c in commands] == [1] * 300


def test_missing_own_topics_are_named_with_the_way_out(stack: Stack) -> None:
    code, log = run_once(stack, "missing", prefix="nowhere.")
    assert code == 78
    assert "nowhere.status.v1" in log
    assert "RCV-4005" in log
    assert "recoveryctl topics apply" in log


def test_an_own_topic_with_the_wrong_cleanup_policy_is_refused(bootstrap: str, tmp_path: Path) -> None:
    with Stack(bootstrap, tmp_path) as own:
        wrong = ConfigResource(
            ResourceType.TOPIC,
            f"{own.prefix}status.v1",
            incremental_configs=[ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)],
        )
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.incremental_alter_configs([wrong]).values():
            future.result(timeout=60)
        code, log = run_once(own, "wrong")
    assert code == 78
    assert f"{own.prefix}status.v1" in log
    assert "RCV-4006" in log


def test_an_own_topic_that_gets_more_partitions_under_the_daemon_ends_it_as_at_a_start(
    bootstrap: str, tmp_path: Path
) -> None:
    with Stack(bootstrap, tmp_path) as own:
        daemon, topic = own.daemon("grown"), f"{own.prefix}events.v1"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(timeout=60)
        assert daemon.await_exit(40) == 78
        code, log = run_once(own, "again")
        for told in (daemon.log.read_text(encoding="utf-8"), log):
            assert f"{topic} has partitions=2, it must be 1." in told
            assert "RCV-4006" in told
        assert code == 78


def test_an_unknown_key_is_a_config_error(stack: Stack) -> None:
    code, log = run_once(stack, "unknown", leese={"ttl": "30s"})
    assert code == 78
    assert "lease" in log


def test_its_http_answers_while_no_broker_does(stack: Stack) -> None:
    lonely = stack.new_daemon("lonely", {"clusters": {"main": {"bootstrap.servers": "127.0.0.1:1"}}})
    lonely.start()
    try:
        lonely.await_alive()
        status, body = lonely.get("/readyz")
        assert (status, json.loads(body)["role"]) == (503, "standby")
        assert lonely.terminate(10) == 0
    finally:
        lonely.kill()


def test_help_and_version_load_no_client_library() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "recoveryd", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("recoveryd ")
    assert not re.search(r"\b(faust|confluent_kafka|pydantic|aiohttp)\b", done.stderr)
