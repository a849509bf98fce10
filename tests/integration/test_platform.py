"""`recoveryctl doctor platform` on a real cluster, and `doctor isolation`, as a person calls them."""

import json
from pathlib import Path

import pytest
import yaml

from tests.builders.configs import set_configs
from tests.builders.history import create_topics
from tests.cli.scripted import run

ALIKE = {
    "--recovery-windows": "alike", "--failure-budgets": "alike", "--replay-volume": "0.4", "--sensitivity": "usual",
    "--ownership": "one",
}  # fmt: skip


def platform(config: Path) -> dict[str, dict[str, str]]:
    asked = run(None, "doctor", "platform", "--config", str(config), "--http", "http://127.0.0.1:1", "-o", "json")
    assert asked.exit_code == 0, asked.stderr
    return {row["name"]: row for row in json.loads(asked.stdout)}


@pytest.mark.broker
@pytest.mark.scenario("S-RUN-24")
def test_seven_questions_are_answered_from_what_the_cluster_says(bootstrap: str, unique: str, tmp_path: Path) -> None:
    topic = f"{unique}in"
    create_topics(bootstrap, {topic: 1})
    set_configs(bootstrap, topic, {"retention.ms": "3600000"})
    unit = {"kind": "group", "group": f"{unique}app", "inputs": [topic], "retention_objective": "24h", "owner": "me"}
    config = tmp_path / "recoveryd.yaml"
    config.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": bootstrap}}, "units": {"app": unit}}))
    found = platform(config)
    assert {name: row["signal"] for name, row in found.items()} == {
        "compatibility": "strong", "replay_boundary": "weak", "cost": "strong", "elasticity": "weak", "governance": "weak",
        "migration_risk": "weak", "observability": "unknown",
    }  # fmt: skip
    assert all(row["evidence"] for row in found.values())
    assert f"{topic} is kept shorter" in found["replay_boundary"]["evidence"]
    assert "app has no approvers" in found["governance"]["evidence"]
    set_configs(bootstrap, topic, {"retention.ms": str(72 * 3_600_000)})
    assert platform(config)["replay_boundary"]["signal"] == "strong"


@pytest.mark.scenario("S-RUN-29")
@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--recovery-windows", "different"), ("--failure-budgets", "different"), ("--replay-volume", "3"),
        ("--sensitivity", "sensitive"), ("--ownership", "several"),
    ],
)  # fmt: skip
def test_one_flag_flips_the_advice_and_the_reason_is_said(flag: str, word: str) -> None:
    def advice(facts: dict[str, str]) -> dict[str, object]:
        words = [part for pair in facts.items() for part in pair]
        asked = run(None, "doctor", "isolation", *words, "-o", "json")
        assert asked.exit_code == 0, asked.stderr
        found: dict[str, object] = json.loads(asked.stdout)
        return found

    assert advice(ALIKE)["advice"] == "shared"
    other = advice(ALIKE | {flag: word})
    assert other["advice"] == "dedicated"
    assert len(other["reasons"]) == 1  # type: ignore[arg-type]


def test_a_word_that_is_none_is_named_with_those_there_are() -> None:
    words = [part for pair in (ALIKE | {"--ownership": "we"}).items() for part in pair]
    asked = run(None, "doctor", "isolation", *words)
    assert asked.exit_code == 2
    assert "--ownership is we." in asked.stderr
    assert "It is one or several." in asked.stderr
