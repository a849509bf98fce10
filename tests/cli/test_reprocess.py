"""`reprocess` and `ack`: what they send, and what cannot be meant."""

import json
from typing import Any

import pytest

from tests.cli.scripted import run

ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "200"}


def data_of(*args: str) -> dict[str, Any]:
    """The data of the record that these arguments print, without the reason."""
    result = run(None, *args, "--reason", "r", "--print-record", "-o", "json", env=ENV)
    assert result.exit_code == 0, result.stderr
    data: dict[str, Any] = json.loads(json.loads(result.stdout)["value"])["data"]
    assert data.pop("reason") == "r"
    return data


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        ((), {"from": "earliest", "outputs": {}}),
        (("--from", "-2h"), {"from": "-2h", "outputs": {}}),
        (("--from", "offset:7"), {"from": {"offset": 7}, "outputs": {}}),
        (
            ("--outputs", "a=recreate", "--outputs", "b=new:c", "--outputs", "d=append"),
            {"from": "earliest", "outputs": {"a": "recreate", "b": {"new": "c"}, "d": "append"}},
        ),
        (
            ("--intermediate", "t=recreate", "--accept-missing", "3", "--plan-only"),
            {
                "from": "earliest",
                "outputs": {},
                "intermediate": {"t": "recreate"},
                "accept_missing": 3,
                "dry_run": True,
            },
        ),
    ],
)
def test_each_flag_has_its_field(flags: tuple[str, ...], data: dict[str, Any]) -> None:
    assert data_of("reprocess", "shop", *flags) == {"unit": "shop", **data}


def test_an_ack_names_its_step_and_what_was_found() -> None:
    assert data_of("ack", "again", "confirm_output", "--note", "right") == {"step": "confirm_output", "note": "right"}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--outputs", "totals"), "TOPIC=POLICY"),
        (("--outputs", "=keep"), "TOPIC=POLICY"),
        (("--outputs", "a=keep", "--outputs", "a=append"), "twice"),
        (("--outputs", "a=throw-away"), "throw-away"),
        (("--outputs", "a=new:"), "which is no topic"),
        (("--outputs", "a=new:to tals"), "which is no topic"),
        (("--outputs", "a=new:.."), "which is no topic"),
        (("--outputs", "a=new:_totals"), "an internal topic"),
        (("--accept-missing", "-1"), "accept_missing"),
        (("--from", "yesterday"), "yesterday"),
    ],
)
def test_what_cannot_be_meant_is_told_with_a_next_step(flags: tuple[str, ...], says: str) -> None:
    result = run(None, "reprocess", "shop", "--reason", "r", *flags, "--print-record", env=ENV)
    assert result.exit_code in {2, 4}
    assert says in result.stderr
