"""Consumers of others that obey a hold by `recoveryd.client`, as processes of their own on a real broker: nothing is
taken between acknowledgement and release, and over all of it each record is handled exactly once.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from recoveryd.client import HoldAwareConsumer, HoldsUnknown
from recoveryd.client.status import HoldFollower
from tests.builders.history import create_topics
from tests.e2e.asking import accepted
from tests.e2e.clients import client
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.foreign_group import LiveWriter
from tests.e2e.log_reader import QUIET, offsets
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.living_clients import living_clients
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4
SETTINGS = {"faust": {"instance_id": "one"}}
Place = tuple[str, int, int]  # topic, partition, offset


class Member:
    """One process of the group."""

    def __init__(self, stack: Stack, name: str, group: str, topics: list[str], **config: Any) -> None:
        self.log = stack.folder / f"{group}-{name}.jsonl"
        self.log.touch()
        settings = {
            "config": {
                **client(stack.bootstrap), **QUIET, "group.id": group, "client.id": name, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, **({} if "group.protocol" in config else {"session.timeout.ms": 90_000}),
                **config,
            },
            "topics": topics, "prefix": stack.prefix, "log": str(self.log),
        }  # fmt: skip
        paths = os.pathsep.join([str(ROOT), str(ROOT / "daemon")])
        self._errors = stack.folder / f"{group}-{name}.err"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.obedient_member", json.dumps(settings)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": paths},
                stderr=errors,
            )

    def noted(self, what: str) -> list[tuple[float, Place]]:
        rows = [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(row[0], tuple(row[2:])) for row in rows if row[1] == what]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(patient_s(60)) == 0, self.said()

    def said(self) -> str:
        return self._errors.read_text()[-2_000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)


class Group:
    def __init__(self, stack: Stack, name: str, topics: list[str], **config: Any) -> None:
        self._stack, self.name, self._topics, self._config = stack, name, topics, config
        self.members: list[Member] = []

    def start(self, name: str) -> Member:
        self.members.append(Member(self._stack, name, self.name, self._topics, **self._config))
        return self.members[-1]

    def said(self) -> str:
        return "; ".join(member.said() for member in self.members)

    def handled(self) -> Counter[Place]:
        return Counter(place for member in self.members for _, place in member.noted("handled"))

    def taken(self, topic: str) -> list[float]:
        return sorted(at for member in self.members for at, place in member.noted("taken") if place[0] == topic)

    def end(self) -> None:
        for member in self.members:
            member.end()


@pytest.fixture(scope="module")
def daemons(stack: Stack) -> Iterator[list[DaemonProcess]]:
    found = [stack.daemon("o1", settings=SETTINGS)]
    yield found
    if found[-1].is_running():
        found[-1].terminate()


@pytest.fixture
def groups(stack: Stack) -> Iterator[list[Group]]:
    made: list[Group] = []
    yield made
    for group in made:
        for member in group.members:
            member.kill()


def hold(stack: Stack, name: str, *topics: str) -> None:
    assert accepted(stack, stack.control.command("hold", name, {"reason": "corrected", "topics": list(topics)}))


def release(stack: Stack, name: str) -> None:
    assert accepted(stack, stack.control.command("release", name, {"reason": "is right again"}))


def obeyed(stack: Stack, name: str, members: int) -> Document:
    """The hold, once so many members have paused and the broker knows of no other."""

    def look() -> Document | None:
        document = stack.follower.status(name)
        if document is None or not document["hold"]["obeyed"]:
            return None
        return document if len(document["hold"]["members"]) == members else None

    found = stack.follower.wait(look, 60, f"{members} members that obey {name}")
    assert found is not None
    return found


def ends(stack: Stack, topic: str) -> dict[int, int]:
    return offsets(stack.bootstrap, topic, end=True)


def wait_all(stack: Stack, group: Group, topic: str) -> None:
    """Until each record was taken; the last ones are still in flight then, and handled when a member ends."""
    wanted = sum(ends(stack, topic).values())
    wait_for(
        lambda: len(group.taken(topic)) >= wanted,
        90,
        lambda: f"{len(group.taken(topic))} of {wanted} records taken: {group.said()}",
    )


def assert_each_once(stack: Stack, group: Group, topic: str) -> None:
    wanted = {(topic, p, offset): 1 for p, end in ends(stack, topic).items() for offset in range(end)}
    assert {place: n for place, n in group.handled().items() if place[0] == topic} == wanted


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"group.protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "new protocol"],
)
@pytest.mark.scenario("S-RUN-26a")
def test_between_acknowledgement_and_release_nothing_is_taken_and_after_it_nothing_is_lost_or_doubled(
    stack: Stack, daemons: list[DaemonProcess], groups: list[Group], config: dict[str, Any], request: Any
) -> None:
    kind = request.node.callspec.id.replace(" ", "-")
    topic, free, name = f"{stack.mark}-{kind}", f"{stack.mark}-{kind}-free", f"h-{kind}"
    fill_plain(stack.bootstrap, topic, PARTITIONS, 500)
    create_topics(stack.bootstrap, {free: 1})
    group = Group(stack, f"{stack.mark}-{kind}-g", [topic, free], **config)
    groups.append(group)
    for member in ("a", "b"):
        group.start(member)
    wait_for(lambda: len(group.taken(topic)) > 100, 60, lambda: f"no record was taken: {group.said()}")
    with LiveWriter(stack.bootstrap, topic, PARTITIONS, 50), LiveWriter(stack.bootstrap, free, 1, 20):
        hold(stack, name, topic)
        held = obeyed(stack, name, 2)
        stack.follower.catch_up()
        assert stack.follower.events(subject=name, kind="hold_obeyed")
        positions = {
            (row["topic"], row["partition"]): row["offset"]
            for member in held["hold"]["members"]
            for row in member["positions"]
        }
        assert set(positions) == {(topic, p) for p in range(PARTITIONS)}
        before = len(group.taken(topic))
        seen = len(group.taken(free))
        wait_for(lambda: len(group.taken(free)) > seen + 20, 60, lambda: "the free topic is not read")
        assert len(group.taken(topic)) == before
        last = {place[1]: place[2] for place in sorted(group.handled()) if place[0] == topic}
        assert {p: positions[topic, p] for p in last} == {p: offset + 1 for p, offset in last.items()}
        release(stack, name)
        wait_for(lambda: len(group.taken(topic)) > before + 50, 60, lambda: "nothing is taken after the release")
    wait_all(stack, group, topic)
    group.end()
    assert_each_once(stack, group, topic)


def test_members_that_come_and_go_while_held_and_a_daemon_that_dies_change_nothing(
    stack: Stack, daemons: list[DaemonProcess], groups: list[Group]
) -> None:
    topic = f"{stack.mark}-moving"
    fill_plain(stack.bootstrap, topic, PARTITIONS, 2_000)
    group = Group(stack, f"{stack.mark}-moving-g", [topic])
    groups.append(group)
    first = group.start("a")
    wait_for(lambda: len(group.taken(topic)) > 100, 60, lambda: f"no record was taken: {group.said()}")
    hold(stack, "h-moving", topic)
    obeyed(stack, "h-moving", 1)
    before = len(group.taken(topic))
    group.start("late")
    obeyed(stack, "h-moving", 2)
    first.end()
    obeyed(stack, "h-moving", 1)
    daemons[-1].kill()
    group.start("later")  # finds the hold although no daemon runs
    wait_for(lambda: bool(group.members[-1].noted("assigned")), 60, lambda: "the new member has no partition")
    daemons.append(stack.daemon(f"o{len(daemons) + 1}", settings=SETTINGS))
    obeyed(stack, "h-moving", 2)
    assert len(group.taken(topic)) == before
    release(stack, "h-moving")
    wait_all(stack, group, topic)
    group.end()
    assert_each_once(stack, group, topic)


def test_a_member_that_says_nothing_is_shown_as_silent(
    stack: Stack, daemons: list[DaemonProcess], groups: list[Group]
) -> None:
    assert daemons[-1].is_running()
    topic = f"{stack.mark}-silent"
    fill_plain(stack.bootstrap, topic, PARTITIONS, 100)
    group = Group(stack, f"{stack.mark}-silent-g", [topic])
    groups.append(group)
    group.start("a")
    deaf = Consumer({**client(stack.bootstrap), **QUIET, "group.id": group.name, "client.id": "deaf"})
    deaf.subscribe([topic])
    try:
        wait_for(lambda: deaf.poll(0.1) is None and bool(deaf.assignment()), 60, lambda: "it has no partition")
        hold(stack, "h-silent", topic)

        def look() -> Document | None:
            deaf.poll(0)
            document = stack.follower.status("h-silent")
            states = {m["client"]: m["state"] for m in document["hold"]["members"]} if document else {}
            return document if states == {"a": "paused", "deaf": "silent"} else None

        found = stack.follower.wait(look, 60, "a silent member")
        assert found is not None
        assert found["hold"]["obeyed"] == []
    finally:
        deaf.close()
    obeyed(stack, "h-silent", 1)
    release(stack, "h-silent")


def test_reading_record_by_record_does_not_ask_for_holds_with_each(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, wanted, asked = f"{stack.mark}-quick", 2_000, 0
    fill_plain(stack.bootstrap, topic, 1, wanted)
    config = {**client(stack.bootstrap), **QUIET, "group.id": f"{topic}-g", "auto.offset.reset": "earliest"}
    consumer = HoldAwareConsumer(config, prefix=stack.prefix)
    follow = HoldFollower.follow

    def counted(self: HoldFollower, timeout_s: float = 0.0) -> None:
        nonlocal asked
        asked += 1
        follow(self, timeout_s)

    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(1.0), 60, lambda: "no record was taken")
        monkeypatch.setattr(HoldFollower, "follow", counted)
        for number in range(1, wanted):
            assert consumer.poll(60.0) is not None, number
        assert asked < wanted / 2
        wait_for(lambda: (consumer.poll(0.1), asked)[1], 60, lambda: "nobody asked for holds")
    finally:
        consumer.close()


def test_who_has_left_keeps_no_client_to_tell_by(stack: Stack) -> None:
    before = living_clients()
    consumer = HoldAwareConsumer({**client(stack.bootstrap), **QUIET, "group.id": "leaves"}, prefix=stack.prefix)
    consumer.subscribe([f"{stack.prefix}control.v1"])
    assert [found for found in living_clients(but=before) if isinstance(found, Producer)]
    consumer.close()
    assert not [found for found in living_clients(but=before, with_garbage=True) if isinstance(found, Producer)]


def test_who_cannot_know_what_is_held_does_not_read(stack: Stack) -> None:
    with pytest.raises(HoldsUnknown, match=r"nothing\.status\.v1"):
        HoldAwareConsumer({**client(stack.bootstrap), **QUIET, "group.id": "g"}, prefix="nothing.", known_within_s=5)
    with pytest.raises((HoldsUnknown, KafkaException)):
        HoldAwareConsumer({"bootstrap.servers": "127.0.0.1:1", **QUIET, "group.id": "g"}, known_within_s=1)
