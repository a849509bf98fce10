"""Savepoints of a real application of Kafka Streams, and another one that begins with it: what it goes on to compute is
what the first would have computed, had it never been stopped.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.clients import writer
from tests.e2e.log_reader import offsets, read_log
from tests.e2e.murmur2 import partition_of
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, becomes, waits_at
from tests.streams.counting import FIRST, LATER, UNCACHED, CountingWorld, counts, unit_of
from tests.streams.data import await_table, make_topics, table, values, write

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

STRAYS = [(key, (10**6).to_bytes(8, "big")) for key in (b"k0", b"stray")]  # as the changelog of counts has them


class World(CountingWorld):
    """`old` counts by key; `new` is another application that reads the same and writes elsewhere."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(bootstrap, prefix, folder, settings=UNCACHED | dict(settings or {}))
        self.old_counts, self.new_counts = self.output, f"{prefix}counts-2"
        self.old = self.program("old", self.spec)
        newer = replace(self.spec, application_id=f"{prefix}next", output=self.new_counts)
        self.new = self.program("new", newer)


@pytest.fixture(scope="module")
def world(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(bootstrap, module_unique, tmp_path_factory.mktemp("apps"))
    make_topics(bootstrap, {made.input: 2, made.old_counts: 2, made.new_counts: 2})
    write(bootstrap, made.input, FIRST, 2)
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    units = {"old": unit_of(world.old.spec), "next": unit_of(world.new.spec)}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": units}) as made:
        made.daemon()
        yield made


def write_strays(bootstrap: str, topic: str) -> None:
    producer = writer(bootstrap)
    for key, value in STRAYS:
        producer.produce(topic, value, key, partition=partition_of(key, 2))
    assert producer.flush(60.0) == 0


def topics_like(bootstrap: str, part: str) -> set[str]:
    return {
        name for name in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60.0).topics if part in name
    }


@pytest.mark.scenario("S-WIKI-3", "S-CASTLE-3a", "S-OSO-5a")
def test_another_application_goes_on_from_the_cut_as_if_the_first_had_never_been_stopped(
    stack: Stack, world: World
) -> None:
    with world.old:
        await_table(world.bootstrap, world.old_counts, counts(FIRST))
        stack.control.command("savepoint", "cut", {"reason": "before v2", "unit": "old", "name": "before-v2"})
        waits_at(stack, "cut", "stop_application")
        assert world.old.stop() == 0
        saved = becomes(stack, "cut", "completed")
        cut = saved["cut"]
        assert (cut["is_exact"], cut["is_exact_if_clean"], len(cut["topics"])) == (False, True, 1), "it may be killed"
        assert sum(cut["topics"][0]["stops"].values()) == len(FIRST)
        assert all(row["state"] == "done" for row in saved["undo"] if row["what"] == "config"), (
            "compaction goes on again"
        )
        [copied] = cut["topics"]
        assert {int(p): end for p, end in copied["copy_ends"].items()} == offsets(
            world.bootstrap, copied["copy"], end=True
        )
        # Somebody writes to the copy what the other application would take for state of its own.
        write_strays(world.bootstrap, copied["copy"])
        # The first goes on, so that the cut lies in the past when the other begins with it.
        world.old.start()
        write(world.bootstrap, world.input, LATER, 2)
        await_table(world.bootstrap, world.old_counts, counts(FIRST + LATER))
        assert world.old.stop() == 0
    data = {"reason": "v2", "savepoint": "before-v2", "to_unit": "next", "outputs": {world.new_counts: "append"}}
    stack.control.command("restore_savepoint", "restored", data)
    ack(stack, "restored", "clean_local_state")
    planned = waits_at(stack, "restored", "start_application")["plan"]
    assert f"{copied['copy']} has up to 2 records that are not of the savepoint" in "\n".join(planned["findings"])
    state = world.new.spec.application_id + copied["name"].removeprefix(world.old.spec.application_id)
    filled = {row.key or b"": row.value or b"" for rows in read_log(world.bootstrap, state).values() for row in rows}
    assert {key.decode(): str(int.from_bytes(value, "big")) for key, value in filled.items()} == counts(FIRST)
    with world.new:
        waits_at(stack, "restored", "confirm_output")
        await_table(
            world.bootstrap, world.new_counts, {k: n for k, n in counts(FIRST + LATER).items() if k in counts(LATER)}
        )
        assert len(values(world.bootstrap, world.new_counts)) == len(LATER), "nothing before the cut is counted again"
        stack.control.command("ack", "restored", {"reason": "as wanted", "step": "confirm_output"})
        becomes(stack, "restored", "completed")
    assert table(world.bootstrap, world.old_counts) == counts(FIRST + LATER)


@pytest.mark.scenario("S-WIKI-3")
def test_two_savepoints_differ_by_the_keys_that_changed_and_a_deleted_one_leaves_no_topic(
    stack: Stack, world: World
) -> None:
    stack.control.command("savepoint", "second", {"reason": "r", "unit": "old", "name": "another"})
    becomes(stack, "second", "completed")
    told = stack.recoveryctl("savepoint", "diff", "before-v2", "another", "-o", "json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    [store] = found["stores"]
    assert (store["keys_before"], store["added"], store["changed"], store["removed"]) == (7, 0, 5, 0)
    assert (store["later_before"], store["later_after"]) == (2, 0), "what somebody wrote to the copy is not compared"
    assert set(store["samples"]["changed"]) <= {f"k{number}" for number in range(5)}
    assert sum(row["after"] - row["before"] for row in found["inputs"]) == len(LATER)
    assert len(topics_like(world.bootstrap, "savepoint.another.")) == 1
    stack.control.command("rollback", "second", {"reason": "not needed"})
    becomes(stack, "second", "rolled_back")
    wait_for(lambda: topics_like(world.bootstrap, "savepoint.another.") == set(), 20.0)
