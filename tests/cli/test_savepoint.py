"""`savepoint` and `restore-savepoint`: what they send, and how savepoints are shown."""

import json
from typing import Any

import pytest

from tests.cli.scripted import run

ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "200"}


@pytest.mark.parametrize(
    ("args", "data"),
    [
        (("savepoint", "create", "cut", "--unit", "shop"), {"unit": "shop", "name": "cut"}),
        (("savepoint", "create", "cut", "--unit", "shop", "--live"), {"unit": "shop", "name": "cut", "live": True}),
        (("restore-savepoint", "cut", "--to-unit", "next"), {"savepoint": "cut", "to_unit": "next"}),
        (
            ("restore-savepoint", "cut", "--to-unit", "next", "--outputs", "a=append", "--plan-only"),
            {"savepoint": "cut", "to_unit": "next", "outputs": {"a": "append"}, "dry_run": True},
        ),
    ],
)
def test_each_flag_has_its_field(args: tuple[str, ...], data: dict[str, Any]) -> None:
    result = run(None, *args, "--reason", "r", "--print-record", "-o", "json", env=ENV)
    assert result.exit_code == 0, result.stderr
    assert json.loads(json.loads(result.stdout)["value"])["data"] == {"reason": "r", **data}
