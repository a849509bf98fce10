"""Whose internal topics are, judged on those that real applications made: their ids contain each other, stores have
names and have none, and their groups speak both protocols.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import GroupType, UnitFacts
from recoveryd.units.graph import NodeRole, make_graph
from recoveryd.units.model import Output, Unit, UnitKind
from recoveryd.units.topology import parse_topology
from recoveryd_sandbox.streams_app import AppSpec, Mode, Protocol, StreamsApp
from tests.cli.scripted import run_on
from tests.streams.data import BASE_MS, await_table, make_topics, write

pytestmark = pytest.mark.broker

RECORDS = {"lines": ("k", "word"), "orders": ("o1", "c1:5"), "names": ("c1", "Ann"), "amounts": ("c1", "5")}
FOREIGN_KEY = ("orders", "names")
TOTALS = ("amounts", "names")
RESULTS = {
    Mode.WORD_COUNT: {"word": "1"},
    Mode.WINDOWS: {f"k@{BASE_MS - BASE_MS % 60_000}": "1"},
    Mode.FOREIGN_KEY: {"o1": "Ann:5"},
    Mode.TOTALS: {"c1": "Ann:5"},
}
# Each begins with the one before, but the last two; the store of `shop-v1` makes a name that an id of others could
# make.
APPLICATIONS: dict[str, tuple[Mode, tuple[str, ...], dict[str, Any]]] = {
    "shop": (Mode.WORD_COUNT, ("lines",), {}),
    "shop-v1": (Mode.WINDOWS, ("lines",), {"store": "eu-daily"}),
    "shop-v1-eu": (Mode.FOREIGN_KEY, FOREIGN_KEY, {}),
    "cart": (Mode.FOREIGN_KEY, FOREIGN_KEY, {"protocol": Protocol.STREAMS}),
    "till": (Mode.TOTALS, TOTALS, {"protocol": Protocol.STREAMS}),
}


@dataclass(frozen=True)
class Started:
    """A unit with its application's topology, the file of that, and the topics that came when it was started."""

    unit: Unit
    topology_file: Path
    own: frozenset[str]


@dataclass(frozen=True)
class Applications:
    bootstrap: str
    prefix: str
    all: dict[str, Started]

    def facts(self, unit: Unit, *others: Unit) -> UnitFacts:
        access = ClientAccess(self.bootstrap)
        return read_unit({"bootstrap.servers": self.bootstrap}, unit, [unit, *others], 0, access)

    def topics_behind(self, application_id: str) -> frozenset[str]:
        return frozenset(topic for topic in self.topics() if topic.startswith(f"{application_id}-"))

    def topics(self) -> frozenset[str]:
        topics = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=60.0).topics
        return frozenset(topic for topic in topics if topic.startswith(self.prefix))


@pytest.fixture(scope="module")
def applications(bootstrap: str, module_unique: str, streams_app: Callable[[AppSpec], StreamsApp]) -> Applications:
    """All of them were started one after the other; none runs any more. Each has committed offsets, since a broker
    forgets a group without members or offsets.
    """
    found = Applications(bootstrap, module_unique, {})
    outputs = [f"out-{name}" for name in APPLICATIONS]
    make_topics(bootstrap, {f"{module_unique}{topic}": 2 for topic in (*RECORDS, *outputs)})
    for number, (topic, record) in enumerate(RECORDS.items()):
        write(bootstrap, f"{module_unique}{topic}", [record], 2, begin_ms=BASE_MS + 60_000 * number)
    for name, (mode, topics, more) in APPLICATIONS.items():
        before = found.topics()
        inputs, out = tuple(f"{module_unique}{topic}" for topic in topics), f"{module_unique}out-{name}"
        app = streams_app(AppSpec(f"{module_unique}{name}", mode, inputs, out, **more))
        await_table(bootstrap, out, RESULTS[mode])
        own = found.topics() - before
        assert app.stop() == 0
        unit = Unit(
            name,
            UnitKind.STREAMS,
            "main",
            app.spec.application_id,
            inputs,
            outputs={out: Output()},
            topology=parse_topology(app.topology_file.read_text()),
        )
        found.all[name] = Started(unit, app.topology_file, own)
    return found


@pytest.mark.scenario("S-WIKI-1c", "S-OSO-1")
@pytest.mark.parametrize("name", APPLICATIONS)
def test_by_their_topologies_each_application_owns_exactly_what_it_made(applications: Applications, name: str) -> None:
    started = applications.all[name]
    others = [other.unit for other in applications.all.values() if other is not started]
    found = applications.facts(started.unit, *others).internal
    assert started.own
    assert frozenset(found.certain) == started.own
    assert found.ambiguous == ()


@pytest.mark.parametrize("name", ["shop", "cart", "till"])
def test_without_a_topology_names_that_streams_made_tell_as_much(applications: Applications, name: str) -> None:
    started = applications.all[name]
    found = applications.facts(replace(started.unit, topology=None)).internal
    assert frozenset(found.certain) == started.own


@pytest.mark.scenario("S-WIKI-1c", "S-WIKI-C2")
@pytest.mark.parametrize("name", ["cart", "till"])
def test_of_a_group_of_the_streams_protocol_the_broker_names_every_internal_topic(
    applications: Applications, name: str
) -> None:
    """Nothing of its topology in the config, and nobody runs it any more."""
    started = applications.all[name]
    unit = replace(started.unit, topology=None, inputs=())
    facts = applications.facts(unit)
    assert facts.group is not None
    assert (facts.group.type, facts.group.members) == (GroupType.STREAMS, ())
    assert facts.group.sources == frozenset(started.unit.inputs)
    assert facts.group.internal_topics == frozenset(facts.internal.certain) == started.own
    assert facts.internal.ambiguous == ()
    graph = make_graph(unit, facts)
    assert {node.name for node in graph.nodes if node.role is NodeRole.INTERNAL} == started.own
    assert {node.part for node in graph.nodes} == {None, *(int(part.id) for part in facts.group.parts)}


@pytest.mark.scenario("S-WIKI-1c")
@pytest.mark.parametrize("name", APPLICATIONS)
def test_without_a_topology_nothing_of_others_is_owned_and_nothing_is_overlooked(
    applications: Applications, name: str
) -> None:
    """Alone in the config, whatever stands there of the group's inputs."""
    started = applications.all[name]
    for inputs in (started.unit.inputs, ()):
        found = applications.facts(replace(started.unit, topology=None, inputs=inputs)).internal
        told = {topic for topic, _ in found.ambiguous}
        assert set(found.certain) <= started.own
        assert {*found.certain, *told} == applications.topics_behind(started.unit.group)


@pytest.mark.scenario("S-WIKI-C2", "S-OSO-1")
def test_the_command_line_draws_and_judges_a_unit_by_its_real_topology(
    applications: Applications, tmp_path: Path
) -> None:
    started = applications.all["shop-v1-eu"]
    config = tmp_path / "c.yaml"
    unit = {
        "kind": "streams",
        "group": started.unit.group,
        "inputs": list(started.unit.inputs),
        "outputs": dict.fromkeys(started.unit.outputs),
        "topology": str(started.topology_file),
    }
    clusters = {"main": {"bootstrap.servers": applications.bootstrap}}
    config.write_text(yaml.safe_dump({"clusters": clusters, "units": {"app": unit}}))

    def run(*args: str) -> tuple[int, str]:
        done = run_on(config, "unit", *args)
        return done.exit_code, done.stdout + done.stderr

    code, shown = run("lint", "app", "-o", "json")
    findings = {row["finding"]: row["topics"] for row in json.loads(shown)}
    assert code == 0
    assert findings == {
        "no_retention_objective": [],
        "generated_names": sorted(started.own),
        "ambiguous_topics": [f"{started.unit.group}-daily-changelog"],  # of `shop-v1`, which is not in this config
        "output_undeclared": list(started.unit.outputs),
        "no_owner": [],
    }
    code, shown = run("graph", "app")
    graph = json.loads(shown)
    drawn = {node["name"]: node["role"] for node in graph["nodes"]}
    assert code == 0
    assert {name for name, role in drawn.items() if role == "internal"} == started.own
    assert {node["part"] for node in graph["nodes"]} == {None, 0, 1}
    edges = {(edge["from"], edge["to"]) for edge in graph["edges"]}
    ends = {start for start, _ in edges}, {end for _, end in edges}
    between = [f"topic:{topic}" for topic in started.own if topic.endswith("-topic")]
    assert len(between) == 2
    assert all(topic in side for topic in between for side in ends)
    assert all(f"topic:{topic}" in ends[0] - ends[1] for topic in started.unit.inputs)
    assert all(f"topic:{topic}" in ends[1] - ends[0] for topic in started.unit.outputs)
