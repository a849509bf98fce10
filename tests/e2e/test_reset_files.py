"""Offsets as CSV between `recoveryctl reset` and Kafka's own `kafka-consumer-groups`, both ways."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from recoveryd_sandbox.kafka_tools import Told, Tool
from tests.e2e.committing_group import PARTITIONS, Group
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PLACES = {0: 5, 1: 0, 2: 99}


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack")) as made, made.running():
        yield made


@pytest.fixture
def group(bootstrap: str, stack: Stack) -> Group:
    made = Group(bootstrap, stack)
    made.commit(*(TopicPartition(made.topic, p, offset) for p, offset in PLACES.items()))
    return made


def recoveryctl(stack: Stack, *words: str) -> str:
    """What it prints to stdout."""
    told = stack.recoveryctl(*words, "--reason", "r")
    assert told.exit_code == 0, told.output
    return told.stdout


def offsets(group: Group) -> dict[int, int]:
    return {partition: offset for partition, (offset, _, _) in group.committed().items()}


def move_away(group: Group) -> None:
    group.commit(*(TopicPartition(group.topic, p, 50) for p in range(PARTITIONS)))
    assert offsets(group) != PLACES


@pytest.mark.scenario("S-OSO-9")
def test_what_is_exported_is_set_again_by_kafkas_own_tool(
    stack: Stack, group: Group, kafka_tool: Callable[..., Told], tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(recoveryctl(stack, "reset", "--group", group.group, "--export"))
    assert offsets(group) == PLACES, "an export changes nothing"
    move_away(group)
    words = ("--group", group.group, "--reset-offsets", "--from-file", str(file), "--execute")
    assert kafka_tool(Tool.CONSUMER_GROUPS, *words).code == 0
    assert offsets(group) == PLACES


@pytest.mark.scenario("S-OSO-9")
@pytest.mark.parametrize("others", [(), ("--group", "another")])
def test_what_kafkas_own_tool_exports_is_set_again(
    stack: Stack, group: Group, kafka_tool: Callable[..., Told], tmp_path: Path, others: tuple[str, ...]
) -> None:
    """With one group named it leaves the group out of its lines, with several it writes it."""
    words = ("--group", group.group, *others, "--reset-offsets", "--to-current", "--all-topics", "--export")
    told = kafka_tool(Tool.CONSUMER_GROUPS, *words, "--dry-run")
    assert told.code == 0, told.err
    file = tmp_path / "offsets.csv"
    file.write_text(told.out)
    move_away(group)
    recoveryctl(stack, "reset", "--group", group.group, "--from-file", str(file), "--wait")
    assert offsets(group) == PLACES
