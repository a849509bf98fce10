"""`upgrade`: what it sends, and how people see whether the versions fit."""

import json
from typing import Any

import pytest

from recoveryd.cli.render.workflows import workflow_plan_parts
from tests.cli.scripted import run
from tests.cli.test_rendering import printed

ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "200"}
UNITS = {"unit": "shop", "to_unit": "shop-v2"}


@pytest.mark.parametrize(
    ("args", "data"),
    [
        ((), UNITS),
        (("--plan-only",), {**UNITS, "dry_run": True}),
        (("--on-incompatible", "continue"), {**UNITS, "on_incompatible": "continue"}),
        (
            ("--mode", "online", "--staged-unit", "shop-v2-staged", "--tail-unit", "shop-v2-tail"),
            {**UNITS, "mode": "online", "staged_unit": "shop-v2-staged", "tail_unit": "shop-v2-tail"},
        ),
        (
            ("--ready-lag", "1m30s", "--hold", "5m", "--cutover", "at_least_once"),
            {**UNITS, "ready": {"lag_seconds": 90.0, "hold": "5m"}, "cutover": "at_least_once"},
        ),
        (("--hold", "5m"), {**UNITS, "ready": {"hold": "5m"}}),
    ],
)
def test_each_flag_has_its_field(args: tuple[str, ...], data: dict[str, Any]) -> None:
    words = ("upgrade", "shop", "--to-unit", "shop-v2", *args, "--reason", "r", "--print-record", "-o", "json")
    result = run(None, *words, env=ENV)
    assert result.exit_code == 0, result.stderr
    assert json.loads(json.loads(result.stdout)["value"])["data"] == {"reason": "r", **data}


@pytest.mark.parametrize("flag", ["--mode", "--staged-unit", "--tail-unit", "--hold", "--cutover", "--on-incompatible"])
def test_an_option_without_a_value_is_not_taken_for_one_that_was_left_out(flag: str) -> None:
    words = ("upgrade", "shop", "--to-unit", "shop-v2", flag, "", "--reason", "r", "--print-record")
    result = run(None, *words, env=ENV)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"RCV-4008 {flag} is empty.")


@pytest.mark.scenario("S-WIKI-7a", "S-WIKI-7b")
def test_a_person_sees_the_verdict_its_reasons_and_the_range_that_stays_with_the_replay_of_it() -> None:
    side = {"cluster": "main", "topic": "orders", "partitions": [0, 1]}
    fix = {
        "source": {**side, "from": {"offsets": {"0": 10, "1": 0}}, "to": {"offsets": {"0": 61_000, "1": 77}}},
        "target": {"cluster": "main", "topic": "orders.before-w1", "create": True},
    }
    plan = {
        "hash": "sha256:1",
        "changes": [{"what": "unit", "name": "app", "partition": None, "from": "shop", "to": "shop-v2"}],
        "version": {
            "verdict": "unknown",
            "differences": [{"name": "renumbered", "verdict": "unknown", "message": "the store counts moved"}],
            "unfixed_range": {"orders": {"0": [10, 61_000], "1": [0, 77]}},
            "fix": [fix],
        },
    }
    text = printed(*workflow_plan_parts(plan))
    assert "the new version is unknown" in text
    assert "unknown: the store counts moved" in text
    assert "61,000" in text
    told = " ".join(text.split())
    command = "recoveryctl replay --source orders --partitions 0,1 --from offsets:0=10,1=0 --to offsets:0=61000,1=77"
    assert f"{command} --target orders.before-w1 --create" in told
