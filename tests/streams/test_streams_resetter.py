"""What Kafka's reset tool for applications (`kafka-streams-application-reset`) does wrong, on real applications: the
reasons for which ours goes another way, to be compared with it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, UnitFacts
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.model.actions import AwaitStarted
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome
from recoveryd.workflows.model.workflow import OffsetUndo
from recoveryd_sandbox.kafka_tools import Told, Tool
from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.e2e.processes import wait_for
from tests.streams.data import await_table, await_values, make_topics, values, write
from tests.streams.places import SOURCES

pytestmark = pytest.mark.broker

RunTool = Callable[..., Told]
CHANGELOG = "KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"
PAIRS = [("a", "x"), ("b", "x"), ("a", "x")]
COUNTS = {"a": "2", "b": "1"}
ONCE = [("a", "1"), ("b", "1"), ("a", "2")]
TWICE = [("a", "3"), ("b", "2"), ("a", "4")]  # on top of what was counted before
UNCACHED = {"statestore.cache.max.bytes": "0"}


class Counted:
    """An application that has counted `PAIRS` and was stopped; each has topics of its own."""

    def __init__(self, bootstrap: str, name: str, folder: Path, *, is_exactly_once: bool = False) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.source, self.counts = f"in-{name}", f"out-{name}"
        make_topics(bootstrap, {self.source: 1, self.counts: 1})
        write(bootstrap, self.source, PAIRS, 1)
        spec = AppSpec(
            name,
            Mode.COUNT,
            (self.source,),
            self.counts,
            is_exactly_once=is_exactly_once,
            settings=UNCACHED,
        )
        self.app = StreamsApp(folder, bootstrap, spec, SOURCES)
        with self.app:
            await_table(bootstrap, self.counts, COUNTS)
            assert self.app.stop() == 0

    def facts(self) -> UnitFacts:
        unit = Unit(self.name, UnitKind.STREAMS, "main", self.name, (self.source,))
        return read_unit({"bootstrap.servers": self.bootstrap}, unit, [unit], 0, ClientAccess(self.bootstrap))

    def committed(self) -> Mapping[int, Committed]:
        group = self.facts().group
        return {} if group is None else group.committed[self.source]


def has_topic(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60.0).topics


def await_gone(bootstrap: str, topic: str) -> None:
    """A deletion is known to all only a moment after it was confirmed."""
    wait_for(lambda: not has_topic(bootstrap, topic), 5.0)


@pytest.mark.wide(
    "tests/e2e/test_reprocess.py::test_from_scratch_it_gives_what_an_application_without_the_bug_would_have_given"
)
@pytest.mark.scenario("S-WIKI-1h")
def test_it_takes_another_position_than_was_asked_for_and_forgets_what_was_committed_with_it(
    bootstrap: str, unique: str, tmp_path: Path, kafka_tool: RunTool
) -> None:
    """The metadata of Streams is the time that each partition has reached: windows are closed by it."""
    shop = Counted(bootstrap, f"{unique}shop", tmp_path)
    [before] = shop.committed().values()
    assert before.metadata

    told = kafka_tool(
        Tool.STREAMS_RESET, "--application-id", shop.name, "--input-topics", shop.source, "--to-offset", "9999"
    )

    assert told.code == 0
    assert shop.committed() == {0: Committed(3)}


@pytest.mark.wide(
    "tests/e2e/test_reprocess.py::test_from_scratch_it_gives_what_an_application_without_the_bug_would_have_given"
)
@pytest.mark.scenario("S-WIKI-1h")
def test_a_misspelt_input_leaves_the_reset_half_done(
    bootstrap: str, unique: str, tmp_path: Path, kafka_tool: RunTool
) -> None:
    shop = Counted(bootstrap, f"{unique}shop", tmp_path)

    told = kafka_tool(
        Tool.STREAMS_RESET, "--application-id", shop.name, "--input-topics", f"{shop.source},{shop.source}s"
    )

    assert told.code == 1
    assert shop.committed() == {0: Committed(0)}
    await_gone(bootstrap, f"{shop.name}-{CHANGELOG}")


@pytest.mark.wide(
    "tests/streams/test_internal_topics.py::test_without_a_topology_nothing_of_others_is_owned_and_nothing_is_overlooked"
)
@pytest.mark.scenario("S-WIKI-1h")
def test_it_deletes_what_belongs_to_others_whose_names_begin_alike(
    bootstrap: str, unique: str, tmp_path: Path, kafka_tool: RunTool
) -> None:
    shop = Counted(bootstrap, f"{unique}shop", tmp_path / "shop")
    europe = Counted(bootstrap, f"{unique}shop-eu", tmp_path / "europe")
    own, others, prices = f"{shop.name}-{CHANGELOG}", f"{europe.name}-{CHANGELOG}", f"{shop.name}-prices-changelog"
    make_topics(bootstrap, {prices: 1})
    wait_for(lambda: has_topic(bootstrap, prices), 5.0)
    found = shop.facts().internal
    assert found.certain == (own,)
    assert {topic for topic, _ in found.ambiguous} == {others, prices}

    told = kafka_tool(Tool.STREAMS_RESET, "--application-id", shop.name, "--input-topics", shop.source)

    assert told.code == 0
    for topic in (own, others, prices):
        await_gone(bootstrap, topic)


_EXACTLY_ONCE = pytest.mark.wide(
    "tests/streams/test_streams_resetter.py::test_state_that_stayed_on_the_disk_counts_twice_unless_the_application_is_exactly_once_and_hears_in_time"
)


@pytest.mark.scenario("S-OSO-14")
@pytest.mark.parametrize(
    ("is_exactly_once", "poll_ms", "counted"),
    [
        (False, "500", TWICE),
        pytest.param(True, "0", TWICE, marks=_EXACTLY_ONCE),
        pytest.param(True, "2000", ONCE, marks=_EXACTLY_ONCE),
    ],
    ids=["at_least_once", "exactly_once_hasty", "exactly_once_patient"],
)
def test_state_that_stayed_on_the_disk_counts_twice_unless_the_application_is_exactly_once_and_hears_in_time(
    bootstrap: str,
    unique: str,
    tmp_path: Path,
    kafka_tool: RunTool,
    *,
    is_exactly_once: bool,
    poll_ms: str,
    counted: list[tuple[str, str]],
) -> None:
    """The tool cannot reach it and does not ask for it. Streams finds the state beyond the end of the new changelog and
    believes it. With exactly once it throws it away if its first fetch there, which is out of range, is answered within
    `poll.ms`; what comes later is not waited for.
    """
    shop = Counted(bootstrap, f"{unique}shop", tmp_path, is_exactly_once=is_exactly_once)
    assert kafka_tool(Tool.STREAMS_RESET, "--application-id", shop.name, "--input-topics", shop.source).code == 0
    shop.app.spec = replace(shop.app.spec, settings=UNCACHED | {"poll.ms": poll_ms})
    with shop.app:
        await_values(bootstrap, shop.counts, lambda found: len(found) == 2 * len(PAIRS))
    assert values(bootstrap, shop.counts)[len(PAIRS) :] == counted


@pytest.mark.scenario("S-WIKI-1b", "S-OSO-14")
def test_an_application_that_was_started_with_old_local_state_is_told_by_task_and_host(
    bootstrap: str, unique: str, tmp_path: Path, kafka_tool: RunTool
) -> None:
    """Nothing is left to be read, so that the changelog that was made anew stays empty."""
    shop = Counted(bootstrap, f"{unique}shop", tmp_path / "old")
    reset = ("--application-id", shop.name, "--input-topics", shop.source, "--to-latest")
    assert kafka_tool(Tool.STREAMS_RESET, *reset).code == 0
    accesses = {"main": ClientAccess(bootstrap)}
    steps = KafkaSteps(
        {"main": {"bootstrap.servers": bootstrap}}, accesses, dict, ManualApplications(), SystemClock().now_ms
    )
    action = AwaitStarted("main", shop.name, "shop", changelogs=(f"{shop.name}-{CHANGELOG}",))

    def why_once(says: str) -> str:
        def look() -> str:
            why = asyncio.run(steps.take(TakeStep("w", "start_application", 1, action))).why
            return why if says in why else ""

        return wait_for(look, 60.0)

    with shop.app:
        why = why_once("old local state")
        assert shop.app.stop() == 0
    assert "has state of task 0_0 up to offset 3, and its changelogs end at 0" in why
    with StreamsApp(tmp_path / "clean", bootstrap, shop.app.spec, SOURCES):
        why_once("shop runs: the group")
        # Where it stands is read back: had 5 been set, somebody else would have moved it since.
        row = OffsetUndo(shop.source, 0, None, 5, group=shop.name)
        told = asyncio.run(steps.take(TakeStep("w", "start_application", 1, action, (row,))))
        assert (told.outcome, told.code) == (Outcome.FAILED, "RCV-2041")
        assert f"{shop.source} 0 of {shop.name} is at 3 after the start, and was set to 5" in told.why
    asyncio.run(steps.close())
