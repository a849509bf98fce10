"""Runbooks on a real broker: a real application of Kafka Streams from identify to close, one whose state goes back to a
savepoint, what offsets and sink have apart, and a shadow that is promoted.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.clients import client, commit
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.murmur2 import partition_of
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import ack, becomes, waits_at
from tests.integration import kafka_configs
from tests.streams.counting import FIRST, LATER, CountingWorld, counts, unit_of
from tests.streams.data import await_table, make_topics, values, write

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

LIVE = {"live": "nothing else uses this cluster"}
LOST = LATER[0][1]  # what v44 leaves out
ALONE = {**LIVE, "lag": "its reader is not started here", "errors": "it has no error topic"}


class Places(CountingWorld):
    """`app` counts by key into `counts`, and `kept` another input; what a group of somebody read of `orders` may not be
    written twice to `rows`.
    """

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        super().__init__(bootstrap, prefix, folder)
        self.counts, self.errors = self.output, f"{prefix}errors"
        self.orders, self.rows, self.repaired = f"{prefix}orders", f"{prefix}rows", f"{prefix}repaired"
        self.group = f"{prefix}group"
        self.app = self.program("app", self.spec)
        self.kept_in, self.kept_counts = f"{prefix}kept-in", f"{prefix}kept-counts"
        spec = replace(self.spec, application_id=f"{prefix}kept", inputs=(self.kept_in,), output=self.kept_counts)
        self.kept = self.program("kept", replace(spec, store="counts"))

    @property
    def units(self) -> dict[str, Any]:
        outputs = {self.counts: {"behaviour": "idempotent", "owner": "billing"}}
        app = unit_of(self.app.spec, outputs=outputs, owner="counting")
        rows = {
            "kind": "group",
            "group": self.group,
            "inputs": [self.orders],
            "outputs": {self.rows: {"behaviour": "append_only"}},
            "stateful": False,
        }
        changelog = f"{self.kept.spec.application_id}-counts-changelog"
        return {"app": app, "kept": unit_of(self.kept.spec, internal_topics=[changelog]), "rows": rows}

    def commit(self, offsets: dict[int, int]) -> None:
        """As if the group's application had stopped there."""
        consumer = Consumer({**client(self.bootstrap), "group.id": self.group})
        places = [TopicPartition(self.orders, p, at) for p, at in offsets.items()]
        commit(consumer, places)
        consumer.close()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        consumer = Consumer({**client(self.bootstrap), "group.id": group})
        found = consumer.committed([TopicPartition(topic, p) for p in range(2)], timeout=60)
        consumer.close()
        return {where.partition: where.offset for where in found}


@pytest.fixture(scope="module")
def places(bootstrap: str, module_unique: str, tmp_path_factory: pytest.TempPathFactory) -> Places:
    made = Places(bootstrap, module_unique, tmp_path_factory.mktemp("app"))
    names = (
        made.input, made.counts, made.kept_in, made.kept_counts, made.errors, made.orders, made.rows, made.repaired,
    )  # fmt: skip
    make_topics(bootstrap, dict.fromkeys(names, 2))
    write(bootstrap, made.input, FIRST, 2)
    write(bootstrap, made.kept_in, FIRST, 2)
    write(bootstrap, made.orders, FIRST, 2)
    return made


@pytest.fixture(scope="module")
def stack(bootstrap: str, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": places.units}) as made:
        made.daemon()
        yield made


class Run:
    """One runbook, by commands on the control topic."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.stack, self.name = stack, name

    def begin(self, unit: str, **data: Any) -> None:
        command = self.stack.control.command("runbook", self.name, {"reason": "it stands still", "unit": unit, **data})
        answer = self.stack.follower.wait_answer(command, 120.0)
        assert answer["type"].split(".")[-2] == "command_accepted", answer["data"]

    def say(self, verb: str, **data: Any) -> None:
        command = self.stack.control.command(verb, self.name, {"reason": "so it is", **data})
        answer = self.stack.follower.wait_answer(command, 120.0)
        assert answer["type"].split(".")[-2] == "command_accepted", answer["data"]

    def waits_at(self, step: str, open_gates: set[str] | None = None) -> Document:
        """`open_gates`: these and no others are not green then."""

        def look() -> Document | None:
            status = self.stack.follower.status(self.name)
            assert status is None or status["state"] not in {"failed", "rejected", "stopped"}, status["why"]
            waiting = None if status is None else status["waiting_for"]
            if status is None or waiting is None or waiting["step"] != step:
                return None
            return status if open_gates is None or open_gates == not_green(status) else None

        return self.stack.follower.wait(look, 120.0, f"{self.name} waits at {step}") or {}

    def began(self) -> list[str]:
        return [e["data"]["step"] for e in self.stack.follower.events(kind="step_started", subject=self.name)]

    def ended(self, state: str) -> Document:
        return self.stack.follower.wait_state(self.name, state, 180.0)


def not_green(status: Document) -> set[str]:
    gates = evidence(status, "verify").get("gates", {})
    return {name for name, gate in gates.items() if gate["state"] not in {"green", "waived"}}


def evidence(status: Document, step: str) -> dict[str, Any]:
    return next(dict(found["evidence"]) for found in status["steps"] if found["name"] == step)


def told(bootstrap: str, client_id: str) -> str:
    return kafka_configs.run(bootstrap, "--describe", "--entity-type", "clients", "--entity-name", client_id)


@pytest.mark.scenario(
    "S-RUN-1",
    "S-RUN-3",
    "S-RUN-5b",
    "S-RUN-7",
    "S-RUN-14",
    "S-RUN-19",
    "S-RUN-21a",
    "S-RUN-23",
    "S-RUN-26",
    "S-RUN-26b",
)
def test_an_application_that_stood_still_goes_on_and_is_verified(stack: Stack, places: Places) -> None:
    run, slowed = Run(stack, "goes-on"), f"{places.group}-reports"
    with places.app:
        await_table(places.bootstrap, places.counts, counts(FIRST))
        assert places.app.stop() == 0
        stood = places.committed(places.app.spec.application_id, places.input)
        write(places.bootstrap, places.input, LATER, 2)
        marks = {places.input: {str(p): at for p, at in stood.items()}}
        run.begin(
            "app",
            sink=marks,
            state=marks,
            checkpoint="clean-stop",
            error_topics=[places.errors],
            quotas={slowed: 1_000_000},
            waive=LIVE,
        )
        status = run.waits_at("choose_path")
        seen = evidence(status, "identify")
        assert seen["verdict"] == "ALIGNED"
        assert seen["truths"] == {places.input: {str(p): [at, at, at] for p, at in stood.items()}}
        dependencies = evidence(status, "confirm_input")["dependencies"]
        assert dependencies["headroom"]["state"] == "unknown"
        assert dependencies["headroom"]["if_unknown"] == "the catch-up delays live traffic"
        assert "consumer_byte_rate" not in told(places.bootstrap, slowed), "nothing is changed yet"
        run.say("ack", step="choose_path")
        run.waits_at("execute")
        assert "consumer_byte_rate=1000000" in told(places.bootstrap, slowed)
        assert places.committed(places.app.spec.application_id, places.input) == stood, "no offset was changed"
        places.app.start()
        await_table(places.bootstrap, places.counts, counts(FIRST + LATER))
        run.waits_at("verify", {"output"})
        run.say("ack", step="verify", note="counted by hand")
        done = run.ended("completed")
    ends = {str(p): end for p, (_, end) in whole_log(places.bootstrap, places.input).items()}
    page = done["report"]
    assert page["final"]["offsets"] == {places.input: ends}
    assert page["final"]["checkpoints"] == ["clean-stop"]
    assert {name: gate["state"] for name, gate in page["gates"].items()} == {
        "lag": "green", "output": "waived", "state": "green", "errors": "green", "live": "waived"
    }  # fmt: skip
    assert page["open"] == []
    assert "consumer_byte_rate" not in told(places.bootstrap, slowed)
    wanted = [
        "identify", "confirm_input", "choose_path", "protect_live", "execute", "verify", "close", "restore_quotas"
    ]  # fmt: skip
    stack.follower.wait(lambda: run.began() == wanted, 60.0, "an event for each step, in order")


@pytest.mark.scenario("S-RUN-21b")
def test_state_that_a_version_broke_goes_back_to_the_savepoint_and_counts_right(stack: Stack, places: Places) -> None:
    app, wrong = places.kept, counts(FIRST + [pair for pair in LATER if pair[1] != LOST])
    v43 = app.spec
    with app:
        await_table(places.bootstrap, places.kept_counts, counts(FIRST))
        stack.control.command("savepoint", "cut", {"reason": "before v44", "unit": "kept", "name": "before-v44"})
        waits_at(stack, "cut", "stop_application")
        assert app.stop() == 0
        becomes(stack, "cut", "completed")
        app.spec = replace(v43, skip=LOST)
        app.start()
        write(places.bootstrap, places.kept_in, LATER, 2)
        await_table(places.bootstrap, places.kept_counts, wrong)
        assert app.stop() == 0
        line = (
            "runbook run kept --path restore_state --savepoint before-v44 --id restored",
            f"--outputs {places.kept_counts}=append --error-topic {places.errors}",
        )
        words = " ".join(line).split()
        said = stack.recoveryctl(*words, "--waive", f"live={LIVE['live']}", "--reason", "v44 broke it")
        assert said.exit_code == 0, said.output
        waits_at(stack, "restored-restore", "clean_local_state")
        shutil.rmtree(app.state_dir)
        stack.control.command("ack", "restored-restore", {"reason": "deleted", "step": "clean_local_state"})
        waits_at(stack, "restored-restore", "start_application")
        app.spec = v43
        app.start()
        await_table(places.bootstrap, places.kept_counts, counts(FIRST + LATER))
        ack(stack, "restored-restore", "confirm_output")
        done = becomes(stack, "restored", "completed")
    assert {name: gate["state"] for name, gate in done["report"]["gates"].items()} == {
        "lag": "green", "output": "green", "state": "green", "errors": "green", "live": "waived"
    }  # fmt: skip
    assert done["report"]["open"] == []
    written = len(FIRST) + (len(LATER) - 1) + len(LATER)
    assert len(values(places.bootstrap, places.kept_counts)) == written, "nothing before the cut is counted again"


@pytest.mark.scenario("S-RUN-7", "S-RUN-7a", "S-RUN-21c")
def test_what_the_sink_has_beyond_the_offsets_is_copied_aside_and_nothing_else(stack: Stack, places: Places) -> None:
    run = Run(stack, "apart")
    ends = {p: end for p, (_, end) in whole_log(places.bootstrap, places.orders).items()}
    at = {p: end // 2 for p, end in ends.items()}
    places.commit(at)
    run.begin("rows", sink={places.orders: {str(p): offset + 4 for p, offset in at.items()}}, waive=ALONE)
    status = run.waits_at("choose_path")
    assert evidence(status, "identify")["verdict"] == "SINK_AHEAD"
    assert evidence(status, "identify")["range"] == {places.orders: {str(p): [o, o + 4] for p, o in at.items()}}
    assert evidence(status, "confirm_input")["proposed"]["path"] == "replay"
    run.say("ack", step="choose_path")
    run.ended("completed")
    lying = {p: [pair for pair in FIRST if in_partition(pair[0]) == p][offset : offset + 4] for p, offset in at.items()}
    assert sorted(values(places.bootstrap, f"{places.orders}.apart")) == sorted(lying[0] + lying[1])
    assert places.committed(places.group, places.orders) == at


def in_partition(key: str) -> int:
    return partition_of(key.encode(), 2)


@pytest.mark.scenario("S-RUN-21d")
def test_a_shadow_leaves_its_target_alone_until_it_is_promoted(stack: Stack, places: Places) -> None:
    run, old = Run(stack, "beside"), [("old", "1"), ("older", "2")]
    write(places.bootstrap, places.repaired, old, 2)
    before, orders = whole_log(places.bootstrap, places.repaired), whole_log(places.bootstrap, places.orders)
    ranges = {str(p): [1, end] for p, (_, end) in orders.items()}
    run.begin("rows", path="shadow", topic=places.orders, ranges=ranges, target=places.repaired, waive=ALONE)
    run.waits_at("promote_or_discard")
    staged = f"{places.orders}.shadow-beside"
    wanted = [pair for p in orders for pair in [pair for pair in FIRST if in_partition(pair[0]) == p][1:]]
    assert sorted(values(places.bootstrap, staged)) == sorted(wanted)
    assert whole_log(places.bootstrap, places.repaired) == before
    run.say("promote")
    page = run.ended("completed")["report"]
    assert sorted(values(places.bootstrap, places.repaired)) == sorted(old + wanted)
    assert page["stays"] == [f"what beside-publish-0 wrote to {places.repaired} stays"]
    assert f"topic {staged} was made, and taken away again" in page["changed"]


@pytest.mark.scenario("S-RUN-14", "S-RUN-21e", "S-RUN-3")
def test_handed_over_nothing_is_changed_and_the_page_says_what_is_known(stack: Stack, places: Places) -> None:
    run = Run(stack, "handed-over")
    before = whole_log(places.bootstrap, places.orders)
    run.begin("rows", path="escalate")
    status = run.ended("stopped")
    assert status["error_code"] == "RCV-3070"
    page = status["report"]
    assert page["dependencies"]["ownership"]["state"] == "unknown"
    assert page["changed"] == []
    assert any(line.startswith("execute is skipped") for line in page["open"])
    find = lambda: stack.follower.events(kind="runbook_escalated", subject=run.name)  # noqa: E731
    (event,) = stack.follower.wait(find, 60.0, "the event that hands it over")
    assert event["data"]["report"] == page
    assert whole_log(places.bootstrap, places.orders) == before
