"""An application that the daemon itself stops and starts: `reprocess` from the command to the last record, over kills
of the daemon, without anybody who stops, starts or acknowledges anything.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.clients import client, commit
from tests.e2e.data import fill_plain
from tests.e2e.log_reader import whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, step_of, waits_at
from tests.streams.data import make_topics

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS, EACH = 2, 50
# Says what it reads, commits it, and ends only when it may, so that a daemon can be killed meanwhile.
APPLICATION = """
import os, signal, sys, time
from confluent_kafka import Consumer
bootstrap, group, topic, may_end = sys.argv[1:]
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 90000})
consumer.subscribe([topic])
print("began", flush=True)
while not told:
    record = consumer.poll(0.2)
    if record is not None and record.error() is None:
        consumer.commit(record, asynchronous=False)
        print(f"read {record.partition()} {record.offset()}", flush=True)
while not os.path.exists(may_end):
    time.sleep(0.1)
consumer.close()
print("ended", flush=True)
"""


# Appends to its output when it begins, and ends badly unless it may live.
APPENDING = """
import os, sys
from confluent_kafka import Producer
bootstrap, topic, may_live = sys.argv[1:4]
print("appends", flush=True)
producer = Producer({"bootstrap.servers": bootstrap})
producer.produce(topic, b"a row")
assert producer.flush(60) == 0
if not os.path.exists(may_live):
    sys.exit(3)
sys.argv[1:] = [bootstrap, *sys.argv[4:]]
"""


class Application:
    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, f"{name}-in", f"{name}-app"
        self.folder, self.may_end = folder, folder / "may-end"
        fill_plain(bootstrap, self.topic, PARTITIONS, EACH)
        consumer = Consumer({**client(bootstrap), "group.id": self.group})
        commit(consumer, [TopicPartition(self.topic, p, EACH) for p in range(PARTITIONS)])
        consumer.close()

    @property
    def unit(self) -> dict[str, Any]:
        start = [sys.executable, "-c", APPLICATION, self.bootstrap, self.group, self.topic, str(self.may_end)]
        control = {"kind": "process", "start": start, "work_dir": str(self.folder), "stop_timeout": "10m"}
        return {"kind": "group", "group": self.group, "inputs": [self.topic], "stateful": False, "control": control}

    def lines(self, work_dir: Path, unit: str = "app") -> Counter[str]:
        log = work_dir / "applications" / unit / "output.log"
        return Counter(log.read_text().splitlines()) if log.exists() else Counter()


@pytest.fixture(scope="module")
def application(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return Application(bootstrap, module_unique.rstrip("-"), tmp_path_factory.mktemp("application"))


@pytest.fixture(scope="module")
def cold(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return Application(bootstrap, f"{module_unique}cold", tmp_path_factory.mktemp("cold"))


class Appending(Application):
    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        super().__init__(bootstrap, name, folder)
        self.rows, self.may_live = f"{name}-rows", folder / "may-live"
        make_topics(bootstrap, {self.rows: 1})

    @property
    def unit(self) -> dict[str, Any]:
        reading = (self.group, self.topic, str(self.may_end))
        start = [sys.executable, "-c", APPENDING + APPLICATION, self.bootstrap, self.rows, str(self.may_live), *reading]
        control = {**super().unit["control"], "start": start}
        return {**super().unit, "control": control, "outputs": {self.rows: {"behaviour": "append_only"}}}


@pytest.fixture(scope="module")
def appending(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> Appending:
    return Appending(bootstrap, f"{module_unique}appending", tmp_path_factory.mktemp("appending"))


@pytest.fixture(scope="module")
def stack(
    bootstrap: str,
    application: Application,
    appending: Appending,
    cold: Application,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    units = {"app": application.unit, "appending": appending.unit, "cold": cold.unit}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": units}) as made:
        yield made


def reprocess(stack: Stack, run: str, unit: str = "app") -> str:
    return stack.control.command("reprocess", run, {"reason": "a bug was mended", "unit": unit, "outputs": {}})


def read_times(application: Application, work_dir: Path) -> set[int]:
    lines = application.lines(work_dir)
    return {lines[f"read {p} {offset}"] for p in range(PARTITIONS) for offset in range(EACH)}


@pytest.mark.scenario("S-WIKI-1e", "S-OSO-13")
def test_it_is_stopped_taken_back_and_started_over_kills_of_the_daemon(stack: Stack, application: Application) -> None:
    work_dir = stack.folder / "work"
    daemon = stack.daemon()
    reprocess(stack, "first")
    done = stack.completed("first")
    assert {step["state"] for step in done["steps"]} == {"done"}
    wait_for(lambda: read_times(application, work_dir) == {1}, 60.0)

    daemon.kill()
    assert application.lines(work_dir)["ended"] == 0
    daemon = stack.daemon("b")
    reprocess(stack, "second")
    wait_for(lambda: step_of(stack, "second", "stop_application").get("state") == "waiting", 60.0)
    wait_for(lambda: "SIGTERM" in step_of(stack, "second", "stop_application")["why"], 60.0)
    daemon.kill()
    application.may_end.touch()
    daemon = stack.daemon("c")
    wait_for(lambda: step_of(stack, "second", "start_application").get("state") in {"running", "waiting", "done"}, 60.0)
    daemon.kill()
    stack.daemon("d")
    done = stack.completed("second")
    assert {step["state"] for step in done["steps"]} == {"done"}
    wait_for(lambda: read_times(application, work_dir) == {2}, 60.0)
    lines = application.lines(work_dir)
    assert (lines["began"], lines["ended"]) == (2, 1), "each wish began or ended it once"


def test_a_rollback_stops_it_and_starts_it_again_over_a_kill_of_the_daemon(
    stack: Stack, application: Application
) -> None:
    stack.kill_daemons()
    work_dir = stack.folder / "work"
    application.may_end.touch()
    daemon = stack.daemon("back-a")
    reprocess(stack, "third")
    stack.completed("third")
    before = application.lines(work_dir)
    stack.control.command("rollback", "third", {"reason": "not needed"})
    again = "start_application_again"
    wait_for(lambda: step_of(stack, "third", again).get("state") in {"running", "waiting", "done"}, 60.0)
    daemon.kill()
    stack.daemon("back-b")
    stack.follower.wait_state("third", "rolled_back", 120.0)
    assert step_of(stack, "third", again)["state"] == "done"
    lines = application.lines(work_dir)
    assert (lines["began"], lines["ended"]) == (before["began"] + 1, before["ended"] + 1)


@pytest.mark.scenario("S-WIKI-4", "S-WIKI-4b")
def test_an_application_is_stopped_by_a_watch_once_it_has_read_what_was_wanted_over_a_kill(
    stack: Stack, cold: Application
) -> None:
    stack.kill_daemons()
    work_dir = stack.folder / "work"
    daemon = stack.daemon("cold-a")
    reprocess(stack, "cold-run", "cold")
    stack.completed("cold-run")

    def watch(run: str, each: int) -> None:
        until = {"offsets": {str(p): each for p in range(PARTITIONS)}}
        data = {
            "reason": "cold data",
            "group": cold.group,
            "topic": cold.topic,
            "until": until,
            "then": {"stop": "cold"},
        }
        answer = stack.follower.wait_answer(stack.control.command("watch", run, data))
        assert answer["type"] == "io.recoveryd.event.command_accepted.v1", answer

    watch("too-far", EACH + 1)
    refused = stack.follower.wait_answer(reprocess(stack, "beside", "cold"))
    assert (refused["data"]["code"], "too-far" in refused["data"]["message"]) == ("RCV-1047", True)
    stack.control.command("stop", "too-far", {"reason": "that was all"})
    stack.follower.wait_state("too-far", "stopped")
    assert cold.lines(work_dir, "cold")["ended"] == 0, "what was not reached stops nobody"

    watch("stops-it", EACH)
    stack.follower.wait(
        lambda: next((d for d in stack.follower.statuses("stops-it") if d["watch"]["unit_stop"]), None), 60.0, "a stop"
    )
    daemon.kill()
    cold.may_end.touch()
    stack.daemon("cold-b")
    done = stack.follower.wait_state("stops-it", "completed", 120.0)
    assert (done["watch"]["unit_stop"]["state"], done["stop"]["reason"]) == ("stopped", "zero_lag")
    assert {row["position"] for row in done["stop"]["evidence"]["partitions"]} == {EACH}
    lines = cold.lines(work_dir, "cold")
    assert (lines["began"], lines["ended"]) == (1, 1)
    types = [e["type"].removeprefix("io.recoveryd.event.") for e in stack.follower.events(subject="stops-it")]
    assert types.count("unit_stopped.v1") == types.count("watch_completed.v1") == 1


@pytest.mark.scenario("S-RUN-12")
def test_one_that_appends_and_failed_is_started_again_only_by_who_decides_it(
    stack: Stack, appending: Appending
) -> None:
    stack.kill_daemons()
    work_dir = stack.folder / "work"
    daemon = stack.daemon("appending-a")
    data = {"reason": "again", "unit": "appending", "outputs": {appending.rows: "append"}}
    stack.control.command("reprocess", "appends", data)
    asked = waits_at(stack, "appends", "decide_start_application")
    assert f"It may have written to {appending.rows}" in asked["why"]
    daemon.kill()
    stack.daemon("appending-b")
    stack.control.command("pause", "appends", {"reason": "somebody looks"})
    stack.follower.wait_state("appends", "paused")
    stack.control.command("resume", "appends", {"reason": "seen"})
    waits_at(stack, "appends", "decide_start_application")
    assert appending.lines(work_dir, "appending")["appends"] == 1
    assert rows(appending) == 1
    appending.may_live.touch()
    ack(stack, "appends", "decide_start_application")
    ack(stack, "appends", "confirm_output")
    stack.completed("appends")
    assert appending.lines(work_dir, "appending")["appends"] == 2
    assert rows(appending) == 2, "a start appends: had it been started by itself, a row were there that nobody wanted"
    appending.may_end.touch()


def rows(appending: Appending) -> int:
    [(first, end)] = whole_log(appending.bootstrap, appending.rows).values()
    return end - first
