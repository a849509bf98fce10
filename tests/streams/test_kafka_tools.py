"""Kafka's own tools run beside ours on a real application, and agree with what we say of its group."""

from collections.abc import Callable

import pytest

from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.units.model import Unit, UnitKind
from recoveryd_sandbox.kafka_tools import Told, Tool
from recoveryd_sandbox.streams_app import AppSpec, Mode, Protocol, StreamsApp
from tests.streams.data import await_table, make_topics, write

pytestmark = pytest.mark.broker


def rows(told: Told) -> list[dict[str, str]]:
    """The table that a tool printed."""
    assert told.code == 0, told
    lines = [line.split() for line in told.out.splitlines() if line.strip()]
    head = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(head, line, strict=True)) for line in lines if len(line) == len(head) and line != head]


def test_offsets_of_an_application_are_those_that_kafkas_tool_shows(
    bootstrap: str,
    unique: str,
    streams_app: Callable[[AppSpec], StreamsApp],
    kafka_tool: Callable[..., Told],
) -> None:
    source, counts = f"{unique}in", f"{unique}counts"
    make_topics(bootstrap, {source: 2, counts: 2})
    write(bootstrap, source, [("k1", "x"), ("k2", "x"), ("k3", "x"), ("k1", "x")], 2)
    app = streams_app(AppSpec(f"{unique}app", Mode.COUNT, (source,), counts))
    await_table(bootstrap, counts, {"k1": "2", "k2": "1", "k3": "1"})
    assert app.stop() == 0
    unit = Unit("app", UnitKind.STREAMS, "main", f"{unique}app", (source,))

    group = read_unit({"bootstrap.servers": bootstrap}, unit, [unit], 0).group
    shown = rows(kafka_tool(Tool.CONSUMER_GROUPS, "--describe", "--verbose", "--group", unit.group))

    assert group is not None
    ours = {at: (entry.offset, entry.leader_epoch) for at, entry in group.committed[source].items()}
    assert ours == {int(r["PARTITION"]): (int(r["CURRENT-OFFSET"]), int(r["LEADER-EPOCH"])) for r in shown}
    assert sum(offset for offset, _ in ours.values()) == 4


@pytest.mark.wide(
    "tests/streams/test_internal_topics.py::test_of_a_group_of_the_streams_protocol_the_broker_names_every_internal_topic"
)
def test_each_kind_of_group_has_a_tool_of_its_own(
    bootstrap: str, unique: str, streams_app: Callable[[AppSpec], StreamsApp], kafka_tool: Callable[..., Told]
) -> None:
    """Which is why ours must look for all of them."""
    source, words = f"{unique}in", f"{unique}words"
    make_topics(bootstrap, {source: 1, words: 1})
    group = f"{unique}app"
    streams_app(AppSpec(group, Mode.WORD_COUNT, (source,), words, protocol=Protocol.STREAMS))
    assert kafka_tool(Tool.STREAMS_GROUPS, "--list").out.split().count(group) == 1
    read = {row["TOPIC"] for row in rows(kafka_tool(Tool.STREAMS_GROUPS, "--describe", "--group", group))}
    assert read == {source, f"{group}-KSTREAM-AGGREGATE-STATE-STORE-0000000005-repartition"}
    for tool in (Tool.CONSUMER_GROUPS, Tool.SHARE_GROUPS):
        assert group not in kafka_tool(tool, "--list").out.split()
        assert "GroupIdNotFoundException" in kafka_tool(tool, "--describe", "--group", group).out
