"""`recoveryctl savepoint reach` on a real cluster: a changelog that is whole, one of which the beginning is gone, one
with holes; the commands that it prints are those that are run.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.cli.app import app as program
from recoveryd.cli.send.connect import Tools
from tests.builders.history import Draft, create_topics, produce
from tests.cli.scripted import run, run_with
from tests.docs.test_commands import parse
from tests.e2e.clients import client, writer
from tests.e2e.data import BASE_MS
from tests.e2e.log_reader import await_markers

pytestmark = pytest.mark.broker

EACH, MOMENT = 50, "2023-11-14T22:13:40Z"  # twenty seconds after the first record
WAIT_S = 120.0


class Application:
    """Reads `in`, and has one store; a record each second in both."""

    def __init__(self, bootstrap: str, unique: str, folder: Path) -> None:
        self.bootstrap, self.source, self.group = bootstrap, f"{unique}in", f"{unique}app"
        self.changelog = f"{self.group}-totals-changelog"
        create_topics(bootstrap, {self.source: 1, self.changelog: 1})
        producer = writer(bootstrap, linger_ms=20)
        for topic in (self.source, self.changelog):
            for number in range(EACH):
                produce(producer, topic, Draft(0, b"k", str(number).encode(), (), BASE_MS + number * 1_000))
        assert producer.flush(WAIT_S) == 0
        unit = {"kind": "streams", "group": self.group, "inputs": [self.source], "internal_topics": [self.changelog]}
        self.config = folder / "recoveryd.yaml"
        config = {
            "clusters": {"main": {"bootstrap.servers": bootstrap}}, "units": {"app": unit}, "topics": {"prefix": unique}
        }  # fmt: skip
        self.config.write_text(yaml.safe_dump(config))
        assert run(None, "topics", "apply", "--config", str(self.config)).exit_code == 0

    def reach(self) -> tuple[int, dict[str, Any]]:
        asked = run_with(
            Tools(), "savepoint", "reach", "app", "--at", MOMENT, "--config", str(self.config), "-o", "json"
        )
        found: dict[str, Any] = json.loads(asked.stdout)
        for command in found["commands"]:
            tool, *words = shlex.split(command)
            if tool == "recoveryctl":
                parse(typer.main.get_command(program), words)  # each is one that the program understands
        return asked.exit_code, found


@pytest.fixture
def app(bootstrap: str, unique: str, tmp_path: Path) -> Application:
    return Application(bootstrap, unique, tmp_path)


@pytest.mark.scenario("S-WIKI-3a")
def test_a_changelog_that_is_whole_gives_the_state_of_then(app: Application) -> None:
    code, found = app.reach()
    assert (code, found["verdict"]) == (0, "changelog")
    fill, settle, begin = found["commands"]
    assert f"--source {app.changelog} --from earliest --to 2023-11-14T22:13:40.000Z" in fill
    assert f"--target {app.group}-then-totals-changelog" in fill
    assert settle.startswith("kafka-configs.sh ")
    assert f"--entity-name {app.group}-then-totals-changelog --add-config retention.ms=-1 " in settle
    assert " --delete-config cleanup.policy,retention.bytes," in settle
    assert begin.startswith(
        f"recoveryctl reset --group {app.group}-then --to 2023-11-14T22:13:40.000Z --topic {app.source}"
    )


@pytest.mark.scenario("S-WIKI-3a")
def test_one_of_which_the_beginning_is_gone_does_not_and_the_rebuild_is_offered(app: Application) -> None:
    admin = AdminClient(client(app.bootstrap))
    admin.delete_records([TopicPartition(app.changelog, 0, 5)])[TopicPartition(app.changelog, 0, 5)].result(WAIT_S)
    code, found = app.reach()
    assert (code, found["verdict"]) == (1, "state_not_recoverable")
    assert found["why"] == [f"{app.changelog} 0 begins at 5: what was written before is gone"]
    [rebuild] = found["commands"]
    assert f"--source {app.source} --from earliest --to 2023-11-14T22:13:40.000Z" in rebuild


@pytest.mark.scenario("S-WIKI-3a")
def test_nor_does_one_in_which_an_older_record_lies_behind_the_first_one_of_that_moment(app: Application) -> None:
    producer = writer(app.bootstrap, linger_ms=20)
    produce(producer, app.changelog, Draft(0, b"k", b"late", (), BASE_MS + 1_000))
    assert producer.flush(WAIT_S) == 0
    code, found = app.reach()
    assert (code, found["verdict"]) == (1, "state_not_recoverable")
    [why] = found["why"]
    assert why.startswith(f"{app.changelog} 0: 1 older records lie behind offset ")


def test_a_topic_that_may_be_its_own_makes_it_uncertain_what_its_state_is(app: Application) -> None:
    create_topics(app.bootstrap, {f"{app.group}-others-changelog": 1})
    asked = run_with(Tools(), "savepoint", "reach", "app", "--at", MOMENT, "--config", str(app.config))
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert asked.stderr.startswith("RCV-2044")
    assert f"{app.group}-others-changelog" in asked.stderr


@pytest.mark.scenario("S-WIKI-3a")
def test_offsets_without_a_record_are_taken_for_compacted_ones(bootstrap: str, unique: str, tmp_path: Path) -> None:
    app = Application(bootstrap, unique, tmp_path)
    producer = Producer({**client(bootstrap), "transactional.id": f"{unique}t"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    produce(producer, app.changelog, Draft(0, b"k", b"late", (), BASE_MS))
    producer.commit_transaction(WAIT_S)
    await_markers(bootstrap, app.changelog)
    produced = writer(bootstrap, linger_ms=20)
    produce(produced, app.changelog, Draft(0, b"k", b"later", (), BASE_MS + 60_000))
    assert produced.flush(WAIT_S) == 0
    asked = run_with(
        Tools(), "savepoint", "reach", "app", "--at", "2100-01-01T00:00:00Z", "--config", str(app.config), "-o", "json"
    )
    assert json.loads(asked.stdout)["why"] == [
        f"{app.changelog} 0: 1 of {EACH + 3} offsets hold no record, compacted away or of a transaction"
    ]
