"""`recoveryctl unit`: what it says of facts that a cluster gave."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from recoveryd.adapters.kafka import unit_facts
from recoveryd.units.facts import Committed, Group, GroupType, Member, UnitFacts
from tests.cli.scripted import run
from tests.units.test_lint import topic

GROUP = Group("app", GroupType.CLASSIC, "empty", committed={"in": {p: Committed(4) for p in range(3)}})
FACTS = UnitFacts(0, {name: topic(name) for name in ("in", "out")}, GROUP)


@pytest.fixture
def config(tmp_path: Path) -> str:
    unit = {"kind": "group", "group": "app", "inputs": ["in"], "outputs": {"out": None}}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": "nowhere:1"}}, "units": {"app": unit}}))
    return str(path)


def shown(monkeypatch: pytest.MonkeyPatch, config: str, facts: UnitFacts, *options: str) -> str:
    monkeypatch.setattr(unit_facts, "read_unit", lambda *_: facts)
    found = run(None, "unit", "show", "app", "--config", config, *options)
    assert found.exit_code == 0, found.stderr
    return found.stdout


def test_lag_is_what_the_log_holds_beyond_the_offsets(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    rows = json.loads(shown(monkeypatch, config, FACTS, "-o", "json"))["topics"]
    assert [(row["topic"], row["lag"]) for row in rows] == [("in", 18), ("out", None)]


def test_the_lag_of_offsets_of_another_log_is_not_known(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    at = {0: Committed(10), 1: Committed(10), 2: Committed(11)}
    rows = json.loads(
        shown(monkeypatch, config, replace(FACTS, group=replace(GROUP, committed={"in": at})), "-o", "json")
    )
    assert rows["topics"][0]["lag"] is None


def test_names_with_brackets_and_colons_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    group = replace(GROUP, state="stable", members=(Member("m", "[worker-1] :cat:", "h"),))
    text = shown(monkeypatch, config, replace(FACTS, group=group, readers={"out": ("[/billing]", "[red]")}))
    assert "[worker-1] :cat: on h" in text
    assert "out is read by [/billing], [red]" in text


@pytest.mark.parametrize(
    ("control", "state", "why", "exit_code"),
    [
        ({}, "unknown", "a person stops and starts it, so its state is not known here", 0),
        ({"kind": "process", "start": ["run"]}, "unknown", "no daemon of this user keeps it in ", 1),
        ({"kind": "connect", "url": "http://127.0.0.1:1"}, "unknown", "Kafka Connect could not be asked: no conn", 1),
    ],
)
def test_who_stops_and_starts_it_and_whether_it_runs(
    tmp_path: Path, control: dict[str, object], state: str, why: str, exit_code: int
) -> None:
    unit = {"kind": "connect", "group": "app", "inputs": ["in"], "control": control}
    config = tmp_path / "c.yaml"
    clusters = {"main": {"bootstrap.servers": "nowhere:1"}}
    config.write_text(
        yaml.safe_dump({"clusters": clusters, "units": {"app": unit}, "work_dir": str(tmp_path / "work")})
    )
    found = run(None, "unit", "control", "app", "--config", str(config), "-o", "json")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["control"], told["state"]) == (exit_code, control.get("kind", "manual"), state)
    assert told["why"].startswith(why)


@pytest.mark.parametrize(
    ("user", "state", "exit_code"), [(None, "stopped", 0), (0, "stopped", 0), (4_321, "unknown", 1)]
)
def test_a_process_is_told_stopped_only_to_who_could_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int | None, state: str, exit_code: int
) -> None:
    unit = {"kind": "group", "group": "app", "inputs": ["in"], "control": {"kind": "process", "start": ["run"]}}
    config = tmp_path / "c.yaml"
    config.write_text(
        yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": "nowhere:1"}}, "units": {"app": unit}})
    )
    (tmp_path / "here" / "recoveryd" / "applications" / "app").mkdir(parents=True)
    if user is not None:
        monkeypatch.setattr(os, "geteuid", lambda: user)

    def told(state_home: str) -> tuple[int, str, str]:
        environment = {"XDG_STATE_HOME": str(tmp_path / state_home)}
        found = run(None, "unit", "control", "app", "--config", str(config), "-o", "json", env=environment)
        report = json.loads(found.stdout)
        return found.exit_code, report["state"], report["why"]

    assert told("here")[:2] == (exit_code, state)
    elsewhere = told("elsewhere")
    assert elsewhere[:2] == (1, "unknown")
    assert str(tmp_path / "elsewhere" / "recoveryd" / "applications" / "app") in elsewhere[2]


def test_a_file_that_control_needs_and_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "clusters: {main: {bootstrap.servers: 'nowhere:1'}}\nunits:\n  app:\n    kind: group\n    group: app\n"
        "    inputs: [in]\n    control:\n      kind: process\n      start: [run]\n      environment: {A: {file: lost}}\n"
    )
    found = run(None, "unit", "control", "app", "--config", str(config))
    assert found.exit_code != 0
    assert f"{config}:10" in found.stderr
    assert "units.app.control.environment.A is not usable" in found.stderr
    validated = run(None, "config", "validate", "--config", str(config))
    assert "units.app.control.environment.A is not usable" in validated.stderr
