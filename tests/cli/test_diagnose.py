"""`recoveryctl diagnose`: what it says of what was seen."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd.adapters.kafka.unit_watch import UnitWatch
from recoveryd.kernel.states import State
from recoveryd.units.diagnosis.seen import Watched
from tests.cli.recoveries import RUNNING, in_state
from tests.cli.scripted import ScriptedBackend, run
from tests.units.test_diagnosis import LOOP, WELL, seen


@pytest.fixture
def config(tmp_path: Path) -> str:
    unit = {"kind": "streams", "group": "app", "inputs": ["words"], "outputs": {"counts-out": None}}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": "nowhere:1"}}, "units": {"app": unit}}))
    return str(path)


def told(monkeypatch: pytest.MonkeyPatch, config: str, watched: Watched, *options: str, **documents: Any) -> Any:
    monkeypatch.setattr(UnitWatch, "watch", lambda *_: watched)
    return run(ScriptedBackend(documents), "diagnose", "app", "--config", config, *options)


def test_recoveries_at_work_on_its_topics_are_named(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    running, ended = in_state(State.RUNNING), in_state(State.COMPLETED)
    for document in (running, ended):
        document["plan"]["target"]["topic"] = "words"
    found = told(monkeypatch, config, LOOP.watched(), "-o", "json", one=running, two=ended)
    document = json.loads(found.stdout)
    assert (found.exit_code, document["classes"]) == (1, ["runtime"])
    assert [cause["message"] for cause in document["causes"] if cause["class"] == "capacity"] == [
        "recovery one (running) writes words at the same time"
    ]
    assert RUNNING.id not in found.stdout


def test_a_unit_that_gets_on_well_is_no_failure(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    found = told(monkeypatch, config, seen(WELL, problems=("quotas are not known",)).watched())
    assert found.exit_code == 0
    assert found.stdout.startswith("app: WELL, it keeps up: 200 records read")
    assert "quotas are not known" in found.stdout


def test_programs_can_have_the_places_alone(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    names = told(monkeypatch, config, LOOP.watched(), "-o", "name").stdout.split()
    assert names == ["runtime"]


@pytest.mark.parametrize(("text", "said"), [("0s", "at least 1 s"), ("x", "RCV-")])
def test_a_time_that_is_none_is_refused(config: str, text: str, said: str) -> None:
    found = run(ScriptedBackend(), "diagnose", "app", "--config", config, "--for", text)
    assert found.exit_code in {2, 4}
    assert said in found.stderr
