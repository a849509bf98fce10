"""The steps of docs/scenarios.md on a Kafka of their own, each as it stands: with the topics, groups and units that the
page names, an application of Kafka Streams where one is meant, and a daemon. What only a person can do, the test does.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.kernel.states import TERMINAL, State
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.daemon_process import end_processes_naming
from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.builders.history import Draft, create_topics, produce
from tests.e2e.clients import client, commit, writer
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.follower import Document
from tests.e2e.murmur2 import partition_of
from tests.e2e.processes import wait_for
from tests.e2e.scenario_sheets import FOLLOWED, Operator, Sheets
from tests.e2e.stack import Stack
from tests.e2e.test_controlled import APPLICATION
from tests.patience import patient_s
from tests.streams.data import await_table
from tests.streams.places import SOURCES

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

ALIVE = {state.value for state in State if state not in {*TERMINAL, State.PLANNED}}
MAY_END = "may-end"
ENDS = {"schedule": "unschedule", "hold": "release"}
KEPT = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
UNCACHED = {"statestore.cache.max.bytes": "0", "commit.interval.ms": "200"}
NAMES = [(f"c{number}", f"Customer {number}") for number in range(40)]
AMOUNTS = [(f"c{number % 40}", str(number)) for number in range(600)]
PARTITIONS = 2
NOVEMBER_2023_MS, APRIL_2024_MS, NOVEMBER_2026_MS = 1_700_000_000_000, 1_712_750_000_000, 1_795_219_200_000
FOLLOWING = {
    "verb": "replay",
    "data": {
        "source": {"topic": "orders", "from": {"schedule": "last_end", "first": "earliest"}, "to": "latest"},
        "target": {"topic": "orders.kept", "create": True, "on_existing": "append"},
    },
}


def times() -> Iterator[int]:
    """Of the orders: some of 2023, some of April 2024, some of the week that the page speaks of, and some of
    just now.
    """
    for number in range(len(AMOUNTS)):
        blocks = (NOVEMBER_2023_MS, APRIL_2024_MS, NOVEMBER_2026_MS, int(time.time() * 1_000) - 600_000)
        yield blocks[number * 4 // len(AMOUNTS)] + 1_000 * number


def totals(factor: int, amounts: list[tuple[str, str]] = AMOUNTS) -> dict[str, str]:
    sums = dict.fromkeys(dict(NAMES), 0)
    for who, amount in amounts:
        sums[who] += factor * int(amount)
    return {who: f"{name}:{sums[who]}" for who, name in NAMES if any(who == key for key, _ in amounts)}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One of its own: names without a prefix would be in the way of other tests."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


class World:
    """What the page takes for granted: topics with records, and `units`, changed by the test before it begins."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        spec = AppSpec(
            "order-processor",
            Mode.TOTALS,
            ("orders", "customers"),
            "customer-totals",
            factor=10,
            store="totals",
            settings=UNCACHED,
        )
        self.app = StreamsApp(folder / "app", bootstrap, spec, SOURCES)
        newer = replace(spec, application_id="order-processor-v44", output="totals.v44", factor=1)
        self.newer = StreamsApp(folder / "newer", bootstrap, newer, SOURCES)
        self.unit = unit("order-processor", "customer-totals")
        self.units = {"order-processor": self.unit, "order-processor-v44": unit("order-processor-v44", "totals.v44")}
        self.settings: dict[str, Any] = {}

    def fill(self) -> None:
        self.delete(lambda name: not name.startswith("__"))
        two = ("orders", "customers", "customer-totals", "totals.v44", "orders.repaired")
        create_topics(
            self.bootstrap,
            dict.fromkeys(two, PARTITIONS) | dict.fromkeys(("orders.dlq", "movie", "events"), 1),
            KEPT,
        )
        producer = writer(self.bootstrap, linger_ms=20)
        told = (NOVEMBER_2023_MS - 86_400_000, NOVEMBER_2026_MS, int(time.time() * 1_000) - 600_000)
        drafts = [("customers", who, name, at_ms) for at_ms in told for who, name in NAMES]
        drafts += [("orders", who, amount, at) for (who, amount), at in zip(AMOUNTS, times(), strict=True)]
        drafts += [(name, None, str(number), NOVEMBER_2023_MS) for name in ("movie", "events") for number in range(60)]
        for topic, key, value, at_ms in drafts:
            place = 0 if key is None else partition_of(key.encode(), PARTITIONS)
            produce(producer, topic, Draft(place, key and key.encode(), value.encode(), (), at_ms))
        assert producer.flush(120.0) == 0

    def run_with_bug(self) -> None:
        """Its topology is known then, and so is that of the newer version: its store has a name that anybody could have
        chosen.
        """
        self.app.start()
        await_table(self.bootstrap, "customer-totals", totals(10))
        text = self.app.topology_file.read_text(encoding="utf-8")
        newer = self.folder / "newer.topology.txt"
        newer.write_text(text.replace("customer-totals", "totals.v44"), encoding="utf-8")
        self.unit["topology"] = str(self.app.topology_file)
        self.units["order-processor-v44"]["topology"] = str(newer)

    def delete(self, is_meant: Callable[[str], bool]) -> None:
        names = [name for name in self.topics() if is_meant(name)]
        if names:
            for answer in self.admin.delete_topics(names).values():
                answer.result(120.0)
            wait_for(lambda: self.topics().isdisjoint(names), 60.0)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=60.0).topics)

    def commit(self, offsets: dict[int, int]) -> None:
        """As if the application had stopped there."""
        consumer = Consumer({**client(self.bootstrap), "group.id": "order-processor"})
        places = [TopicPartition("orders", p, at) for p, at in offsets.items()]
        commit(consumer, [*places, *(TopicPartition("customers", p, 0) for p in range(PARTITIONS))])
        consumer.close()

    def reader(self) -> dict[str, Any]:
        """The `control` of an application that the daemon runs itself: it reads orders and commits."""
        (self.folder / MAY_END).touch()
        words = [self.bootstrap, "order-processor", "orders", str(self.folder / MAY_END)]
        start = [sys.executable, "-c", APPLICATION, *words]
        return {"kind": "process", "start": start, "work_dir": str(self.folder), "stop_timeout": "10m"}


def unit(group: str, output: str, **more: Any) -> dict[str, Any]:
    said = {
        "kind": "streams",
        "group": group,
        "inputs": ["orders", "customers"],
        "outputs": {output: {"behaviour": "idempotent", "owner": "billing"}},
        "stateful": True,
        "owner": "orders-team",
    }
    return said | more


@pytest.fixture
def world(kafka: str, tmp_path: Path) -> Iterator[World]:
    made = World(kafka, tmp_path)
    made.fill()
    with ExitStack() as ends:  # those that a test started; one that is killed would be a member for long
        ends.push(made.app)
        ends.push(made.newer)
        yield made


class Story:
    """One daemon, and the sheets of one story."""

    def __init__(self, world: World, stack: Stack, daemon: DaemonProcess, sheets: Sheets) -> None:
        self.world, self.stack, self.daemon, self.sheets = world, stack, daemon, sheets
        self.there = self.topics()
        self.follow = sheets.follow

    def at(self, run: str, step: str) -> Callable[[], Document]:
        """Until that workflow waits at that step."""

        def look() -> Document | None:
            status = self.stack.follower.status(run)
            assert status is None or status["state"] not in {"failed", "rejected", "stopped"}, status["why"]
            waiting = None if status is None else status.get("waiting_for")
            return status if waiting is not None and waiting["step"] == step else None

        return lambda: self.stack.follower.wait(look, 120.0, f"{run} waits at {step}") or {}

    def is_(self, run: str, state: str) -> Callable[[], Document]:
        return lambda: self.stack.follower.wait_state(run, state, 120.0)

    def settle(self, *, and_delete: bool = True) -> None:
        """Nothing runs any more, and topics that were made are gone, so that the next sheet finds what it takes for
        granted.
        """
        running = self.running()
        for run, kind in running.items():
            is_begun_by_another = any(run.startswith(f"{other}-") for other in running)
            if not is_begun_by_another:
                self.stack.control.command(ENDS.get(kind, "stop"), run, {"reason": "the next sheet begins"})
        self.rest()
        if and_delete:
            self.world.delete((self.topics() - self.there).__contains__)

    def topics(self) -> set[str]:
        """Those that are none of Kafka's and recoveryd's own."""
        return {name for name in self.world.topics() if not name.startswith((self.stack.prefix, "__"))}

    def rest(self) -> None:
        self.stack.follower.wait(lambda: not self.running(), 120.0, "nothing runs")

    def running(self) -> dict[str, str]:
        """What is not over, with its kind."""
        known = {str(event["subject"]) for event in self.stack.follower.events() if event.get("subject")}
        found = {run: self.stack.follower.status(run) for run in known}
        return {run: s.get("kind", "") for run, s in found.items() if s is not None and s.get("state", "") in ALIVE}


@pytest.fixture
def begin(world: World, tmp_path: Path) -> Iterator[Callable[..., Story]]:
    """Begins a story with what the world is configured to by then."""
    with ExitStack() as ends:

        def began(user: str = "ann") -> Story:
            config = {"units": world.units, "monitor": {"topics": [{"topic": "orders", "group": "order-processor"}]}}
            stack = ends.enter_context(Stack(world.bootstrap, tmp_path / "stack", config | world.settings))
            ends.callback(end_processes_naming, str(world.folder / MAY_END))
            daemon = stack.daemon()
            home = tmp_path / "home"
            home.mkdir()
            for name in ("nightly.yaml", "hourly.yaml"):
                (home / name).write_text(yaml.safe_dump(FOLLOWING), encoding="utf-8")
            shutil.copy(daemon.config, home / "recoveryd.yaml")
            return Story(world, stack, daemon, Sheets(Operator(home, home / "recoveryd.yaml", user)))

        yield began


def look_around(story: Story) -> None:
    """Nothing is begun or made by it."""
    may_find = ("unit lint", "unit contract", "retention show", "diagnose", "doctor", "savepoint reach")
    codes = {**dict.fromkeys(may_find, (0, 1)), "--replay-rate 11k/s": (1,)}
    with ThreadPoolExecutor(3) as people:  # one does not wait for another
        list(people.map(lambda row: story.follow(row, codes=codes), FOLLOWED["looks"]))
    assert sorted(story.sheets.followed) == sorted(FOLLOWED["looks"])
    assert story.running() == {}
    assert story.topics() == story.there


@pytest.mark.wide(
    "tests/e2e/test_scenario_sheets.py::test_runbooks_watches_and_schedules_go_as_far_as_their_sheets_say"
)
@pytest.mark.scenario("S-WIKI-0c")
def test_an_application_is_looked_at_unchanged_and_begins_again_by_its_sheets(
    world: World, begin: Callable[..., Story]
) -> None:
    app = world.app
    world.run_with_bug()
    story = begin()
    look_around(story)

    def stop(run: str) -> Callable[[], None]:
        def work() -> None:
            story.at(run, "stop_application")()
            assert app.stop() == 0

        return work

    def start(run: str, factor: int, output: str) -> Callable[[], None]:
        def work() -> None:
            story.at(run, "start_application")()
            app.spec = replace(app.spec, factor=factor, output=output)
            app.start()

        return work

    def clean(run: str) -> Callable[[], None]:
        def work() -> None:
            story.at(run, "clean_local_state")()
            shutil.rmtree(app.state_dir)

        return work

    def compared(run: str, output: str, wanted: dict[str, str]) -> Callable[[], None]:
        def work() -> None:
            story.at(run, "confirm_output")()
            await_table(world.bootstrap, output, wanted)

        return work

    told = story.follow(
        "S-WIKI-1",
        by_hand=[
            ("stop the application", stop("again")),
            ("start the application", start("again", 1, "customer-totals")),
        ],
        first={
            "describe again": story.at("again", "stop_application"),
            "clean_local_state": clean("again"),
            "confirm_output": compared("again", "customer-totals", totals(1)),
        },
    )
    story.is_("again", "completed")()
    assert "stop_application" in told

    new = "customer-totals.v2"
    story.follow(
        "S-WIKI-1g",
        by_hand=[("stop the application", stop("beside")), ("start the application", start("beside", 1, new))],
        first={"clean_local_state": clean("beside"), "confirm_output": compared("beside", new, totals(1))},
    )
    story.is_("beside", "completed")()
    assert "match" in story.follow("S-CASTLE-5")
    story.follow("S-WIKI-7")
    story.settle(and_delete=False)  # it waited for the old version to be stopped, and changed nothing
    assert app.stop() == 0
    for row in ("S-WIKI-1d", "S-WIKI-2"):
        story.settle()
        story.follow(row)
    assert story.sheets.followed[len(FOLLOWED["looks"]) :] == list(FOLLOWED["again"])


@pytest.mark.wide("tests/e2e/test_demo_app.py::test_an_application_is_kept_mended_processed_again_and_put_back")
@pytest.mark.scenario("S-WIKI-0c")
def test_its_state_is_kept_and_restored_by_its_sheets(world: World, begin: Callable[..., Story]) -> None:
    app, newer = world.app, world.newer
    world.run_with_bug()
    story = begin()

    def stop_for(run: str, *, again: bool) -> Callable[[], None]:
        def work() -> None:
            story.at(run, "stop_application")()
            assert app.stop() == 0
            story.is_(run, "completed")()
            if again:
                app.start()

        return work

    def start_newer() -> None:
        story.at("v44", "start_application")()
        newer.start()

    story.follow(
        "S-WIKI-3",
        by_hand=[
            ("stop the application", stop_for("cut-v43", again=True)),
            ("stop the application", stop_for("cut", again=False)),
            ("start order-processor-v44", start_newer),
        ],
        first={
            "ack v44 clean_local_state": story.at("v44", "clean_local_state"),
            "ack v44 confirm_output": story.at("v44", "confirm_output"),
        },
    )
    story.is_("v44", "completed")()
    assert newer.stop() == 0
    assert newer.restored(), "it began with the state of the other"
    assert "match" in story.follow("S-OSO-17b")
    story.follow("S-RUN-26")
    story.at("noon", "choose_path")()
    story.follow("S-RUN-26b")
    story.stack.control.command("stop", "noon", {"reason": "seen"})
    story.is_("noon", "stopped")()
    for row in ("S-RUN-16", "S-RUN-21b"):
        story.follow(row)
        story.settle(and_delete=False)
    assert story.sheets.followed == list(FOLLOWED["kept"])


@pytest.mark.wide(
    "tests/e2e/test_scenario_sheets.py::test_runbooks_watches_and_schedules_go_as_far_as_their_sheets_say"
)
@pytest.mark.scenario("S-WIKI-0c")
def test_copies_are_made_steered_and_proved_by_their_sheets(world: World, begin: Callable[..., Story]) -> None:
    world.commit({0: 100, 1: 100})
    cluster = {"bootstrap.servers": world.bootstrap}
    world.settings = {
        "clusters": {"main": cluster, "other": cluster},
        "profiles": {"recovery": {"master": "local[2,4]", "driver_memory": "512m"}},
    }
    story = begin()
    for row in FOLLOWED["copies"]:
        story.follow(row)
        if row != "S-WIKI-4b":  # what it copied is proved by the next
            story.settle()
    assert story.sheets.followed == list(FOLLOWED["copies"])


@pytest.mark.scenario("S-WIKI-0c")
def test_a_topic_is_held_plans_are_looked_at_and_a_reset_is_approved_by_their_sheets(
    world: World, begin: Callable[..., Story]
) -> None:
    """Nothing is copied, and no Spark starts."""
    world.commit({0: 100, 1: 100})
    world.unit |= {"approvers": ["//recoveryctl/kim"]}
    story = begin()
    *rows, owned = FOLLOWED["approved"]
    for row in rows:
        story.follow(row)
        story.settle()
    ann = story.sheets.operator

    def kim() -> None:
        story.is_("owned", "awaiting_approval")()
        story.sheets.operator = Operator(ann.folder, ann.folder / "recoveryd.yaml", "kim")

    story.follow(owned, by_hand=[("one of the approvers", kim)], codes={"recoveryctl reset": (7,)})
    story.is_("owned", "completed")()
    assert story.sheets.followed == list(FOLLOWED["approved"])


@pytest.mark.scenario("S-WIKI-0c")
def test_runbooks_watches_and_schedules_go_as_far_as_their_sheets_say(
    world: World, begin: Callable[..., Story]
) -> None:
    world.commit({0: 100, 1: 100})
    world.unit |= {"kind": "group", "stateful": False, "outputs": {"customer-totals": {"behaviour": "append_only"}}}
    world.unit["control"] = world.reader()
    world.units["order-sink"] = {**unit("order-sink", "totals.v44"), "kind": "group", "stateful": False}
    (world.folder / "secret").write_text("sixteen or more letters", encoding="utf-8")
    world.settings = {
        "webhooks": {"stop-it": {"url": "http://127.0.0.1:1/never-called", "secret_file": str(world.folder / "secret")}}
    }
    story = begin()
    first = {
        "ack twenty choose_path": story.at("twenty", "choose_path"),
        "ack gated verify": story.at("gated", "verify"),
        "rollback back": story.is_("back", "completed"),
        "--export": story.rest,
    }
    *rows, once, always = FOLLOWED["runbooks"]
    for row in rows:
        story.follow(row, first=first)
        story.settle()
        if row == "S-OSO-9":
            world.commit({0: 100, 1: 100})
    story.daemon.terminate()
    story.follow(once)
    assert always == "S-CASTLE-2"
    [step] = story.sheets.printed[always]
    with story.sheets.operator.begin(step) as running:
        wait_for(story.daemon.is_leader, 60.0)
        running.terminate()
        told, noted = running.communicate(timeout=patient_s(60.0))
    assert running.returncode == 0, told + noted
    assert [*story.sheets.followed, always] == list(FOLLOWED["runbooks"])
