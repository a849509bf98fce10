"""What a real cluster says of units: groups with and without members, offsets with their metadata, readers of outputs,
and whose internal topics are.
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.group_facts import read_committed, read_group
from recoveryd.adapters.kafka.topic_admin import await_topic
from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, GroupType
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from recoveryd_sandbox.broker import Broker
from tests.builders.configs import set_configs
from tests.builders.history import create_topics
from tests.cli.scripted import run, run_on
from tests.e2e.clients import commit
from tests.e2e.log_reader import whole_log
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0
NUL = "\0"  # librdkafka sends one behind metadata
GENERATED = "KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog"


class Application:
    """A unit `UNIQUEapp` that reads `UNIQUEin` and writes `UNIQUEout`, beside one whose id begins with its own."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.properties, self.access = {"bootstrap.servers": bootstrap}, ClientAccess(bootstrap)
        self.source, self.out, self.group = f"{unique}in", f"{unique}out", f"{unique}app"
        self.own, self.others = f"{self.group}-{GENERATED}", f"{self.group}-v1-{GENERATED}"
        create_topics(bootstrap, {self.source: 3, self.out: 2, self.own: 1, self.others: 1})
        admin = AdminClient(self.properties)
        for topic in (self.source, self.out, self.own, self.others):
            await_topic(admin, topic, DEADLINE_S)  # a broker may hear of a new topic a moment later
        self.unit = Unit(
            "app",
            UnitKind.STREAMS,
            "main",
            self.group,
            (self.source,),
            outputs={self.out: Output(Behaviour.IDEMPOTENT)},
        )

    def commit(self, group: str, *offsets: TopicPartition) -> None:
        consumer = Consumer(self.properties | {"group.id": group})
        commit(consumer, offsets)
        consumer.close()

    def member(self, group: str, topic: str, **more: str) -> Consumer:
        named = {name.replace("_", "."): value for name, value in more.items()}
        consumer = Consumer(self.properties | {"group.id": group, "auto.offset.reset": "earliest", **named})
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(0.2) is None and bool(consumer.assignment()), DEADLINE_S)
        return consumer


@pytest.fixture
def app(bootstrap: str, unique: str) -> Application:
    return Application(bootstrap, unique)


def test_a_group_that_was_never_seen_is_none_and_its_topics_are_there(app: Application) -> None:
    facts = read_unit(app.properties, app.unit, [app.unit], 5)
    assert (facts.at_ms, facts.group, facts.problems) == (5, None, ())
    assert facts.topics[app.source].partitions == 3
    assert facts.topics[app.source].retention_ms is None
    assert facts.topics[app.source].id
    assert facts.readers == {}


def test_the_first_questions_about_groups_that_a_cluster_ever_gets_are_answered(tmp_path: Path) -> None:
    """Coordinators are made by them, and are not ready at once."""
    with Broker(tmp_path) as broker, ThreadPoolExecutor(20) as people:
        properties = {"bootstrap.servers": broker.bootstrap}
        admin = make_admin(properties)
        names = [f"g{number}" for number in range(100)]
        found = people.map(lambda name: read_group(properties, admin, name, {}, is_listed=False), names)
        assert list(found) == [None] * len(names)


def test_offsets_come_with_their_metadata_from_a_group_without_members(app: Application) -> None:
    app.commit(app.group, TopicPartition(app.source, 0, 7, metadata="mine"), TopicPartition(app.source, 2, 0))
    group = read_unit(app.properties, app.unit, [app.unit], 0, app.access).group
    assert group is not None
    assert (group.type, group.state, group.is_empty, group.is_streams) == (GroupType.CLASSIC, "empty", True, None)
    assert group.committed == {
        app.source: {0: Committed(7, "mine\0"), 2: Committed(0)}
    }  # librdkafka sends a NUL behind it


def test_metadata_end_where_they_end_however_often_they_are_read(app: Application) -> None:
    """What lies behind them in a client's memory is not of them."""
    texts = ["A" * length for length in range(1, 41)]
    for text in texts:
        app.commit(app.group, *(TopicPartition(app.source, p, 1, metadata=text) for p in range(3)))
        keys = [(app.source, p) for p in range(3)]
        found = read_committed(app.properties, app.group, keys, access=app.access)
        assert {at.metadata for at in found[app.source].values()} == {text + NUL}


@pytest.mark.scenario("S-OSO-8")
@pytest.mark.parametrize(("protocol", "kind"), [("classic", GroupType.CLASSIC), ("consumer", GroupType.CONSUMER)])
def test_members_are_named_with_what_they_read(app: Application, protocol: str, kind: GroupType) -> None:
    member = app.member(app.group, app.source, client_id="one", group_instance_id="static-1", group_protocol=protocol)
    try:
        group = read_unit(app.properties, app.unit, [app.unit], 0).group
    finally:
        member.close()
    assert group is not None
    assert (group.type, group.state, group.is_streams) == (kind, "stable", False)
    [found] = group.members
    assert (found.client_id, found.instance_id, found.topics) == ("one", "static-1", {app.source})
    assert str(found).startswith("one on 127.0.0.1, static static-1")


@pytest.mark.scenario("S-RUN-4")
def test_readers_of_an_output_are_those_with_members_and_those_with_offsets(app: Application, unique: str) -> None:
    app.commit(f"{unique}billing", TopicPartition(app.out, 1, 3))
    app.commit(f"{unique}elsewhere", TopicPartition(app.source, 1, 3))
    member = app.member(f"{unique}reports", app.out)
    try:
        facts = read_unit(app.properties, app.unit, [app.unit], 0)
    finally:
        member.close()
    assert facts.readers == {app.out: (f"{unique}billing", f"{unique}reports")}


def test_internal_topics_are_told_from_those_of_an_id_that_begins_alike(app: Application) -> None:
    app.commit(f"{app.group}-v1", TopicPartition(app.source, 0, 1))
    facts = read_unit(app.properties, app.unit, [app.unit], 0)
    assert facts.internal.certain == (app.own,)
    assert dict(facts.internal.ambiguous) == {app.others: f"{app.group}-v1 can own it as well"}
    assert facts.containing_ids == (f"{app.group}-v1",)
    assert app.own in facts.topics
    assert app.others not in facts.topics


@pytest.mark.scenario("S-RUN-8", "S-OSO-8", "S-OSO-19")
def test_the_command_line_shows_and_judges_a_unit(app: Application, bootstrap: str, tmp_path: Path) -> None:
    app.commit(app.group, *(TopicPartition(app.source, p, 0) for p in range(3)))
    config = tmp_path / "c.yaml"
    unit = {"kind": "streams", "group": app.group, "inputs": [app.source, "lost-topic"], "outputs": {app.out: None}}
    config.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": bootstrap}}, "units": {"app": unit}}))

    def asked(*args: str) -> tuple[int, str]:
        done = run_on(config, "unit", *args)
        return done.exit_code, done.stdout + done.stderr

    code, shown = asked("show", "app", "-o", "json")
    document = json.loads(shown)
    rows = {row["topic"]: row for row in document["topics"]}
    assert (code, document["group"]["state"]) == (0, "empty")
    assert (rows[app.source]["role"], rows[app.source]["lag"], rows["lost-topic"]["exists"]) == ("input", 0, False)
    assert rows[app.own]["role"] == "internal"
    code, shown = asked("lint", "app", "-o", "json")
    assert code == 1
    assert {row["finding"] for row in json.loads(shown)} >= {"input_missing", "output_undeclared", "no_owner"}
    code, shown = asked("contract", "app", "-o", "json")
    assert (code, [row["clause"] for row in json.loads(shown)]) == (
        1,
        ["retention", "offsets", "topic_design", "schema", "determinism", "output_idempotence"],
    )
    assert asked("graph", "app", "--mermaid")[1].startswith("flowchart LR")
    code, shown = asked("show", "ap")
    assert (code, shown.split()[0]) == (3, "RCV-1040")
    assert "app" in shown.partition("next:")[2]


@pytest.mark.scenario("S-RUN-5a", "S-RUN-10")
def test_the_command_line_tells_when_what_is_not_read_yet_may_go(
    app: Application, bootstrap: str, tmp_path: Path
) -> None:
    hour_ms = 3_600_000
    set_configs(bootstrap, app.source, {"retention.ms": str(24 * hour_ms)})
    producer = Producer(app.properties)
    for age_h in (20, 10):
        producer.produce(app.source, b"x", partition=0, timestamp=int(time.time() * 1000) - age_h * hour_ms)
    assert producer.flush(DEADLINE_S) == 0
    app.commit(app.group, TopicPartition(app.source, 0, 1))
    unit = {"kind": "streams", "group": app.group, "inputs": [app.source], "retention_objective": "48h"}
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": bootstrap}}, "units": {"app": unit}}))

    def look() -> dict[str, Any] | None:  # a broker may hear of the new config a moment later
        found = run(None, "retention", "show", "app", "-o", "json", "--config", str(config))
        [row] = json.loads(found.stdout)["inputs"]
        return {"code": found.exit_code, **row} if row["kept_ms"] is not None else None

    row = wait_for(look, DEADLINE_S)
    assert (row["code"], row["keeping"], row["kept_ms"]) == (1, "short", 24 * hour_ms)
    assert row["reaches_back_ms"] // hour_ms == 20
    assert row["unread_age_ms"] // hour_ms == 10
    assert row["lost_in_ms"] // hour_ms == 13
    held = {place["partition"]: place["log_start"] for place in row["partitions"]}
    assert held == {p: start for p, (start, _) in whole_log(bootstrap, app.source).items()}
    assert (row["partitions"][0]["reaches_back_ms"] // hour_ms, row["partitions"][0]["goes_in_ms"] // hour_ms) == (
        20,
        3,
    )
    admin = AdminClient(app.properties)
    for answer in admin.delete_records([TopicPartition(app.source, 0, 1)]).values():
        answer.result(DEADLINE_S)
    place = wait_for(look, DEADLINE_S)["partitions"][0]
    assert (place["log_start"], place["reaches_back_ms"] // hour_ms, place["goes_in_ms"] // hour_ms) == (1, 10, 13)
    told = run(None, "retention", "show", "app", "-o", "wide", "--config", str(config)).stdout
    assert re.search(rf"^{re.escape(app.source)} +0 +1 +10\.", told, re.MULTILINE)
