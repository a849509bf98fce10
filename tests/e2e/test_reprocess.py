"""`reprocess` of real applications of Kafka Streams on a real broker: with a bug in their state, mended, and run again
from scratch or from a point, by commands on the control topic.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import change_configs, read_own_configs
from recoveryd_sandbox.kafka_tools import Tool, run_tool
from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from tests.e2e.clients import client
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import waits_at
from tests.streams.counting import UNCACHED, unit_of
from tests.streams.data import await_table, make_topics, table, values, write
from tests.streams.places import SOURCES

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

LATER_MS = 1_770_000_000_000  # a join finds a table's row only if that was there in event time
NAMES = [("c1", "Ann"), ("c2", "Bo"), ("c3", "Cy")]
ORDERS = [(f"c{number % 3 + 1}", str(number)) for number in range(60)]


LOOKED_UP = """Topologies:
   Sub-topology: 0 for global store (will not generate tasks)
    Source: NAMES (topics: [{shop.customers}])
      --> TABLE
    Processor: TABLE (stores: [names])
      --> none
  Sub-topology: 1
    Source: ORDERS (topics: [{shop.orders}])
      --> SUMS
    Processor: SUMS (stores: [sums])
      --> OUT
    Sink: OUT (topic: {shop.totals})
"""


def totals(factor: int, orders: list[tuple[str, str]] = ORDERS) -> dict[str, str]:
    sums = {key: factor * sum(int(amount) for who, amount in orders if who == key) for key, _ in NAMES}
    return {key: f"{name}:{sums[key]}" for key, name in NAMES if any(who == key for who, _ in orders)}


class Shop:
    """An application that sums orders by customer with a bug, and a second one whose name begins with its name.
    `store`: what people called the store of the sums.
    """

    def __init__(
        self, bootstrap: str, prefix: str, folder: Path, store: str | None = None, mode: Mode = Mode.TOTALS
    ) -> None:
        self.bootstrap = bootstrap
        self.orders, self.customers, self.totals = f"{prefix}orders", f"{prefix}customers", f"{prefix}totals"
        self.spec = AppSpec(
            f"{prefix}shop",
            mode,
            (self.orders, self.customers),
            self.totals,
            factor=10,
            store=store,
            settings=UNCACHED,
        )
        self.app = StreamsApp(folder / "shop", bootstrap, self.spec, SOURCES)

    @property
    def unit(self) -> dict[str, Any]:
        return unit_of(self.spec)

    def fill(self) -> None:
        make_topics(self.bootstrap, {self.orders: 2, self.customers: 2, self.totals: 2})
        write(self.bootstrap, self.customers, NAMES, 2)
        write(self.bootstrap, self.orders, ORDERS, 2, begin_ms=LATER_MS)

    def run_with_bug(self) -> None:
        self.app.start()
        await_table(self.bootstrap, self.totals, totals(10))

    def start_mended(self, output: str | None = None) -> None:
        self.app.spec = replace(self.spec, factor=1, output=output or self.totals)
        self.app.start()

    def clean(self) -> None:
        shutil.rmtree(self.app.state_dir)

    def committed(self, *topics: str) -> dict[str, dict[int, int]]:
        consumer = Consumer({**client(self.bootstrap), "group.id": self.spec.application_id})
        places = [TopicPartition(topic, p) for topic in topics for p in range(2)]
        found: dict[str, dict[int, int]] = {}
        for where in consumer.committed(places, timeout=60):
            if where.offset >= 0:
                found.setdefault(where.topic, {})[where.partition] = where.offset
        consumer.close()
        return found


class Runs:
    """Commands about one workflow, and what became of it."""

    def __init__(self, stack: Stack, run: str) -> None:
        self.stack, self.run = stack, run

    def begin(self, unit: str, outputs: Mapping[str, Any], **more: Any) -> str:
        data = {"reason": "the totals are too high", "unit": unit, "outputs": outputs, **more}
        return self.stack.control.command("reprocess", self.run, data)

    def waits_at(self, step: str) -> Document:
        return waits_at(self.stack, self.run, step)

    def ack(self, step: str) -> None:
        self.stack.control.command("ack", self.run, {"reason": "done", "step": step})

    def rejected(self) -> Document:
        return self.stack.follower.wait_state(self.run, "rejected")

    def completed(self) -> Document:
        return self.stack.follower.wait_state(self.run, "completed", 120.0)


@pytest.fixture(scope="module")
def shops(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shop]:
    names = ("scratch", "point", "twin")
    made = {name: Shop(bootstrap, f"{module_unique}{name}-", tmp_path_factory.mktemp(name)) for name in names}
    for name, mode in (("named", Mode.TOTALS), ("table", Mode.LOOKUP)):
        made[name] = Shop(bootstrap, f"{module_unique}{name}-", tmp_path_factory.mktemp(name), "sums", mode)
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, shops: dict[str, Shop], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    units = {name: shop.unit for name, shop in shops.items()}
    named = shops["named"]
    stores = ("sums", f"{named.customers}-STATE-STORE-0000000000")
    listed = [f"{named.spec.application_id}-{store}-changelog" for store in stores]
    units["listed"] = {**named.unit, "internal_topics": listed}
    text = tmp_path_factory.mktemp("topology") / "table.topology.txt"
    text.write_text(LOOKED_UP.format(shop=shops["table"]), encoding="utf-8")
    units["table"]["topology"] = str(text)
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": units}) as made:
        for shop in shops.values():
            shop.fill()
        made.daemon()
        yield made


def topic_ids(bootstrap: str, prefix: str) -> dict[str, str]:
    from recoveryd.adapters.kafka.topic_admin import describe

    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=60.0).topics if name.startswith(prefix)]
    return {name: shape.topic_id for name, shape in describe(admin, names, 60.0).items() if shape is not None}


def own_configs(shop: Shop, topic: str = "") -> Mapping[str, str]:
    """Of its orders, if no other topic is named."""
    name = topic or shop.orders
    return read_own_configs(AdminClient({"bootstrap.servers": shop.bootstrap}), [name], 60.0)[name]


@pytest.mark.scenario(
    "S-RUN-16",
    "S-WIKI-1",
    "S-WIKI-1a",
    "S-WIKI-1b",
    "S-WIKI-1c",
    "S-WIKI-1e",
    "S-WIKI-1f",
    "S-WIKI-1i",
    "S-RUN-6",
    "S-RUN-19",
    "S-CASTLE-3a",
    "S-OSO-6",
    "S-OSO-11",
    "S-OSO-14",
)
def test_from_scratch_it_gives_what_an_application_without_the_bug_would_have_given(
    stack: Stack, shops: dict[str, Shop]
) -> None:
    shop, runs = shops["scratch"], Runs(stack, "from-scratch")
    other = f"{shop.spec.application_id}-v2-KSTREAM-AGGREGATE-STATE-STORE-0000000005-changelog"
    make_topics(shop.bootstrap, {other: 1})
    admin = AdminClient({"bootstrap.servers": shop.bootstrap})
    change_configs(
        admin, {shop.orders: {"retention.bytes": "100000000"}, shop.totals: {"max.message.bytes": "2000000"}}, 60.0
    )
    with shop.app:
        await_table(shop.bootstrap, shop.totals, totals(10))
        before = topic_ids(shop.bootstrap, shop.spec.application_id) | topic_ids(shop.bootstrap, shop.totals)
        shape = (own_configs(shop, shop.totals), whole_log(shop.bootstrap, shop.totals).keys())
        runs.begin("scratch", {shop.totals: "recreate"}, keep_inputs=True)
        waiting = runs.waits_at("stop_application")
        assert len(waiting["waiting_for"]["members"]) == 1
        assert topic_ids(shop.bootstrap, shop.totals) == {shop.totals: before[shop.totals]}, "nothing is changed yet"
        assert shop.app.stop() == 0
        runs.waits_at("clean_local_state")
        wait_for(lambda: own_configs(shop)["retention.bytes"] == "-1", 30.0)
        after = topic_ids(shop.bootstrap, shop.spec.application_id) | topic_ids(shop.bootstrap, shop.totals)
        assert after[other] == before[other], "it may belong to an application with a longer name"
        assert after[shop.totals] != before[shop.totals]
        assert shape[0]["max.message.bytes"] == "2000000"
        assert (own_configs(shop, shop.totals), whole_log(shop.bootstrap, shop.totals).keys()) == shape
        assert set(whole_log(shop.bootstrap, shop.totals).values()) == {(0, 0)}
        assert set(after) == {other, shop.totals}, "its own internal topics are gone"
        assert shop.committed(shop.orders, shop.customers) == {
            topic: {0: 0, 1: 0} for topic in (shop.orders, shop.customers)
        }
        shop.clean()
        runs.ack("clean_local_state")
        runs.waits_at("start_application")
        shop.start_mended()
        status = runs.waits_at("confirm_output")
        await_table(shop.bootstrap, shop.totals, totals(1))
        assert len(values(shop.bootstrap, shop.totals)) == len(ORDERS), "each order gave one result, as in a first run"
        assert status["plan"]["ambiguous_topics"] == [other]
        runs.ack("confirm_output")
        done = runs.completed()
    assert {step["state"] for step in done["steps"]} == {"done"}
    assert done["plan"]["hash"] == waiting["plan"]["hash"]
    wait_for(lambda: own_configs(shop)["retention.bytes"] == "100000000", 30.0)


@pytest.mark.scenario("S-WIKI-1b", "S-WIKI-1c")
def test_a_store_that_people_named_is_not_left_to_be_counted_on_without_a_word(
    stack: Stack, shops: dict[str, Shop]
) -> None:
    """Until the config says whose its changelog is, nothing is done; then it goes."""
    shop = shops["named"]
    changelog = f"{shop.spec.application_id}-sums-changelog"
    with shop.app:
        await_table(shop.bootstrap, shop.totals, totals(10))
        assert shop.app.stop() == 0
    before = topic_ids(shop.bootstrap, shop.spec.application_id)
    assert changelog in before
    refused = Runs(stack, "not-certain")
    refused.begin("named", {shop.totals: "recreate"})
    told = refused.rejected()
    assert told["error_code"] == "RCV-2044"
    assert f"{changelog} may hold state of named, and would not be taken away" in told["why"]
    assert topic_ids(shop.bootstrap, shop.spec.application_id) == before
    certain = Runs(stack, "certain")
    certain.begin("listed", {shop.totals: "recreate"}, dry_run=True)
    plan = stack.follower.wait_state(certain.run, "planned")["plan"]
    gone = {change["name"] for change in plan["changes"] if change["what"] == "topic" and change["to"] is None}
    assert changelog in gone


@pytest.mark.scenario("S-WIKI-1a")
def test_an_input_that_is_read_into_a_global_table_gets_no_offset_and_is_not_waited_for(
    stack: Stack, shops: dict[str, Shop]
) -> None:
    shop, runs = shops["table"], Runs(stack, "with-a-table")
    with shop.app:
        await_table(shop.bootstrap, shop.totals, totals(10))
        assert shop.app.stop() == 0
        runs.begin("table", {shop.totals: "recreate"})
        runs.waits_at("clean_local_state")
        shop.clean()
        runs.ack("clean_local_state")
        runs.waits_at("start_application")
        shop.start_mended()
        runs.waits_at("confirm_output")
        await_table(shop.bootstrap, shop.totals, totals(1))
        assert set(shop.committed(shop.orders, shop.customers)) == {shop.orders}
        runs.ack("confirm_output")
        runs.completed()


@pytest.mark.scenario("S-WIKI-1g", "S-WIKI-2", "S-RUN-21d")
def test_from_a_point_into_a_new_topic_the_old_one_stays_as_it_was(stack: Stack, shops: dict[str, Shop]) -> None:
    shop, runs = shops["point"], Runs(stack, "from-a-point")
    new = f"{shop.totals}-2"
    at = {topic: whole_log(shop.bootstrap, topic) for topic in (shop.orders, shop.customers)}
    offsets = {shop.orders: {str(p): end // 2 for p, (_, end) in at[shop.orders].items()}} | {
        shop.customers: {str(p): 0 for p in at[shop.customers]}
    }
    half = [
        order
        for p, (_, end) in at[shop.orders].items()
        for order in [pair for pair in ORDERS if place_of(pair[0]) == p][end // 2 :]
    ]
    with shop.app:
        await_table(shop.bootstrap, shop.totals, totals(10))
        assert shop.app.stop() == 0
        old = whole_log(shop.bootstrap, shop.totals)
        runs.begin("point", {shop.totals: {"new": new}}, **{"from": {"offsets": offsets}})
        runs.waits_at("clean_local_state")
        shop.clean()
        runs.ack("clean_local_state")
        waiting = runs.waits_at("start_application")
        assert f"with the output {new} in place of {shop.totals}" in waiting["why"]
        shop.start_mended(new)
        runs.waits_at("confirm_output")
        await_table(shop.bootstrap, new, totals(1, half))
        runs.ack("confirm_output")
        runs.completed()
    assert table(shop.bootstrap, new) == totals(1, half)
    assert whole_log(shop.bootstrap, shop.totals) == old


def place_of(key: str) -> int:
    from tests.e2e.murmur2 import partition_of

    return partition_of(key.encode(), 2)


@pytest.mark.wide(
    "tests/e2e/test_reprocess.py::test_from_scratch_it_gives_what_an_application_without_the_bug_would_have_given"
)
@pytest.mark.scenario("S-WIKI-1h", "S-WIKI-1j", "S-OSO-9")
def test_it_leaves_what_kafkas_own_tool_leaves_where_that_is_right(
    stack: Stack, shops: dict[str, Shop], tmp_path: Path
) -> None:
    """Both on applications that did the same: ours stopped at its gate, the tool when it is done."""
    ours, runs = shops["twin"], Runs(stack, "twin")
    theirs = Shop(ours.bootstrap, f"{ours.spec.application_id}-tool-", tmp_path)
    theirs.fill()
    for shop in (ours, theirs):
        with shop.app:
            await_table(shop.bootstrap, shop.totals, totals(10))
            assert shop.app.stop() == 0
    inputs = f"{theirs.orders},{theirs.customers}"
    words = ("--application-id", theirs.spec.application_id, "--input-topics", inputs)
    assert run_tool(Tool.STREAMS_RESET, ours.bootstrap, tmp_path / "tool", *words).code == 0
    runs.begin("twin", {ours.totals: "append"})
    status = runs.waits_at("clean_local_state")
    assert f"{len(ORDERS)} records of earlier runs stay in {ours.totals}" in "\n".join(status["plan"]["findings"])
    left = [
        (
            list(shop.committed(shop.orders, shop.customers).values()),
            list(topic_ids(shop.bootstrap, f"{shop.spec.application_id}-K")),
            len(values(shop.bootstrap, shop.totals)),
        )
        for shop in (ours, theirs)
    ]
    assert left[0] == left[1]
    stack.control.command("stop", runs.run, {"reason": "that was all"})
    stack.follower.wait_state(runs.run, "stopped")


@pytest.mark.scenario("S-WIKI-1j")
def test_what_cannot_be_is_refused_and_nothing_is_changed(stack: Stack, shops: dict[str, Shop]) -> None:
    shop = shops["point"]
    before = (topic_ids(shop.bootstrap, shop.totals), shop.committed(shop.orders, shop.customers))
    runs = Runs(stack, "no-outputs")
    command = runs.begin("point", {})
    answer = stack.follower.wait_answer(command)
    assert (answer["type"], answer["data"]["code"]) == ("io.recoveryd.event.command_rejected.v1", "RCV-1006")
    late = Runs(stack, "past-the-end")
    late.begin("point", {shop.totals: "append"}, **{"from": {"offset": 10_000}})
    assert late.rejected()["error_code"] == "RCV-2003"
    assert (topic_ids(shop.bootstrap, shop.totals), shop.committed(shop.orders, shop.customers)) == before


@pytest.mark.scenario("S-WIKI-1d")
def test_an_input_that_is_not_whole_is_refused_by_count_unless_so_many_are_accepted(
    stack: Stack, shops: dict[str, Shop]
) -> None:
    shop = shops["point"]
    logs = whole_log(shop.bootstrap, shop.orders)
    place = max(logs, key=lambda p: logs[p][1])
    admin = AdminClient({"bootstrap.servers": shop.bootstrap})
    for answer in admin.delete_records([TopicPartition(shop.orders, place, 7)]).values():
        answer.result(60.0)
    before = (topic_ids(shop.bootstrap, shop.totals), shop.committed(shop.orders, shop.customers))
    refused = Runs(stack, "not-whole")
    refused.begin("point", {shop.totals: "recreate"}, accept_missing=6)
    told = refused.rejected()
    assert told["error_code"] == "RCV-2043", told["why"]
    assert f"7 records of the inputs are gone: {shop.orders} {place} lacks 7" in told["why"]
    accepted = Runs(stack, "not-whole-accepted")
    accepted.begin("point", {shop.totals: "recreate"}, accept_missing=7, dry_run=True)
    plan = stack.follower.wait_state(accepted.run, "planned")["plan"]
    assert any("7 records" in finding for finding in plan["findings"])
    assert (topic_ids(shop.bootstrap, shop.totals), shop.committed(shop.orders, shop.customers)) == before
