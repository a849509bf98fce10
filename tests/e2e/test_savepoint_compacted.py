"""A savepoint of an application whose changelog the broker really compacts, with small segments and all the time: the
state is whole, the account of the copy says what was not there any more, and a moment before is told to be lost.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.configs import await_configs, own_configs
from tests.e2e.log_reader import read_log, whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import becomes, waits_at
from tests.e2e.test_savepoint import World, topics_like
from tests.streams.counting import LATER, counts, keyed, unit_of
from tests.streams.data import BASE_MS, await_table, make_topics, values, write

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

FIRST = keyed(700, 7)
BATCH = 70
# Records are a second apart in event time, which is what counts; Streams gives these to its changelogs.
SMALL_SEGMENTS = {"topic.segment.ms": "20000", "topic.min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def world(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(bootstrap, module_unique, tmp_path_factory.mktemp("apps"), SMALL_SEGMENTS)
    make_topics(bootstrap, {made.input: 2, made.old_counts: 2, made.new_counts: 2})
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    units = {"old": unit_of(world.old.spec), "next": unit_of(world.new.spec)}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": units}) as made:
        made.daemon()
        yield made


def fill_bit_by_bit(world: World) -> None:
    """A segment ends between two batches only, so that all at once would be one of them."""
    for begin in range(0, len(FIRST), BATCH):
        write(world.bootstrap, world.input, FIRST[begin : begin + BATCH], 2, BASE_MS + 1_000 * begin)
        await_table(world.bootstrap, world.old_counts, counts(FIRST[: begin + BATCH]))


def left_in(world: World, topic: str) -> int:
    return sum(map(len, read_log(world.bootstrap, topic).values()))


def last_values(world: World, topic: str) -> Mapping[str, int]:
    """Of a changelog of counts."""
    logs = read_log(world.bootstrap, topic)
    return {(r.key or b"").decode(): int.from_bytes(r.value or b"", "big") for rows in logs.values() for r in rows}


def reach(stack: Stack, at: str) -> tuple[int, Any]:
    told = stack.recoveryctl("savepoint", "reach", "old", "--at", at, "-o", "json")
    return told.exit_code, json.loads(told.stdout)


@pytest.mark.wide(
    "tests/e2e/test_savepoint.py::test_another_application_goes_on_from_the_cut_as_if_the_first_had_never_been_stopped"
)
@pytest.mark.scenario("S-WIKI-3", "S-WIKI-3a")
def test_the_state_is_whole_and_what_compaction_took_is_accounted_for(stack: Stack, world: World) -> None:
    with world.old:
        fill_bit_by_bit(world)
        [changelog] = topics_like(world.bootstrap, f"{world.old.spec.application_id}-")
        wait_for(
            lambda: left_in(world, changelog) < len(FIRST) // 2,
            60.0,
            lambda: f"all of {left_in(world, changelog)} are there",
            every_s=0.5,
        )
        assert sum(end for _, end in whole_log(world.bootstrap, changelog).values()) == len(FIRST)

        configs = own_configs(world.bootstrap, changelog)
        moment = (datetime.fromtimestamp(BASE_MS / 1_000, UTC) + timedelta(seconds=300)).isoformat()
        code, answer = reach(stack, moment)
        assert (code, answer["verdict"]) == (1, "state_not_recoverable")
        assert all("offsets hold no record, compacted away" in why for why in answer["why"])
        assert f"--source {world.input} --from earliest" in answer["commands"][0], "the inputs are left"

        stack.control.command("savepoint", "cut", {"reason": "before v2", "unit": "old", "name": "compacted"})
        waits_at(stack, "cut", "stop_application")
        assert world.old.stop() == 0
        saved = becomes(stack, "cut", "completed")
    [topic] = saved["cut"]["topics"]
    assert sum(topic["stops"].values()) == len(FIRST)
    copied = stack.follower.wait_state("cut-0", "completed")
    rows = copied["completeness"]
    assert {(row["lost"], row["filtered"], row["unexplained"]) for row in rows} == {(0, 0, 0)}
    assert sum(row["copied"] + row["skipped"] for row in rows) == sum(row["offsets"] for row in rows) == len(FIRST)
    assert sum(row["skipped"] for row in rows) > len(FIRST) // 2
    kept = left_in(world, topic["copy"])
    assert kept == sum(row["copied"] for row in rows)
    proof = copied["verification"]
    assert (proof["result"], proof["source_records"], proof["target_records"]) == ("match", kept, kept)
    assert last_values(world, topic["copy"]) == {key: int(count) for key, count in counts(FIRST).items()}
    assert reach(stack, saved["cut"]["at"])[1]["verdict"] == "savepoint"

    data = {"reason": "v2", "savepoint": "compacted", "to_unit": "next", "outputs": {world.new_counts: "append"}}
    stack.control.command("restore_savepoint", "restored", data)
    waits_at(stack, "restored", "clean_local_state")
    stack.control.command("ack", "restored", {"reason": "it never ran", "step": "clean_local_state"})
    waits_at(stack, "restored", "start_application")
    write(world.bootstrap, world.input, LATER, 2)
    with world.new:
        waits_at(stack, "restored", "confirm_output")
        whole = counts(FIRST + LATER)
        await_table(world.bootstrap, world.new_counts, {key: whole[key] for key in counts(LATER)})
        assert len(values(world.bootstrap, world.new_counts)) == len(LATER), "nothing before the cut is counted again"
        stack.control.command("ack", "restored", {"reason": "as wanted", "step": "confirm_output"})
        becomes(stack, "restored", "completed")
    [begun] = topics_like(world.bootstrap, f"{world.new.spec.application_id}-")
    await_configs(world.bootstrap, changelog, configs)
    await_configs(world.bootstrap, begun, configs)
