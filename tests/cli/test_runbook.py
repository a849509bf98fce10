"""`runbook`: what it sends, what cannot be meant, and its one page."""

import json
from typing import Any

import pytest

from recoveryd.cli.render.recoveries import describe
from recoveryd.cli.render.runbooks import runbook_page
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.wire.status import WorkflowForm
from tests.cli.scripted import run
from tests.cli.test_rendering import printed
from tests.workflows.runbook_world import RunbookWorld

ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "200"}


def data_of(*args: str) -> dict[str, Any]:
    result = run(None, *args, "--reason", "r", "--print-record", "-o", "json", env=ENV)
    assert result.exit_code == 0, result.stderr
    data: dict[str, Any] = json.loads(json.loads(result.stdout)["value"])["data"]
    assert data.pop("reason") == "r"
    return data


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        ((), {"path": "auto"}),
        (("--path", "restore_state", "--savepoint", "cut"), {"path": "restore_state", "savepoint": "cut"}),
        (
            ("--sink", "a:b:0=120", "--state", "in:1=100", "--checkpoint", "c"),
            {"path": "auto", "sink": {"a:b": {"0": 120}}, "state": {"in": {"1": 100}}, "checkpoint": "c"},
        ),
        (
            ("--path", "shadow", "--range", "in:0=100-120", "--range", "in:1=3-4", "--target", "t", "--hold", "5m"),
            {"path": "shadow", "topic": "in", "ranges": {"0": [100, 120], "1": [3, 4]}, "target": "t", "hold": "5m"},
        ),
        (
            ("--quota", "a=b=2MB", "--waive", "live=at night", "--error-topic", "dlq", "--plan-only"),
            {
                "path": "auto",
                "quotas": {"a=b": 2_000_000},
                "waive": {"live": "at night"},
                "error_topics": ["dlq"],
                "dry_run": True,
            },
        ),
    ],
)
def test_each_flag_has_its_field(flags: tuple[str, ...], data: dict[str, Any]) -> None:
    assert data_of("runbook", "run", "shop", *flags) == {"unit": "shop", **data}


@pytest.mark.parametrize("verb", ["promote", "discard", "escalate"])
def test_what_steers_a_runbook_needs_a_reason_only(verb: str) -> None:
    assert data_of("runbook", verb, "rb") == {}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--path", "restart"), "path"),
        (("--sink", "in=120"), "TOPIC:PARTITION=OFFSET"),
        (("--sink", "in:0=many"), "TOPIC:PARTITION=OFFSET"),
        (("--range", "in:0=7"), "--range in:0=7 is not TOPIC:PARTITION=START-STOP"),
        (("--range", "in:0=7-3"), "ends before it begins"),
        (("--range", "a:0=1-2", "--range", "b:0=1-2"), "one topic"),
        (("--range", "a:0=1-2", "--range", "a:0=20-30"), "--range says a:0 more than once"),
        (("--range", "a:0=1-2", "--range", "a:00=20-30"), "--range says a:0 more than once"),
        (("--range", "a:\u0663=1-2"), "TOPIC:PARTITION=START-STOP"),
        (("--sink", "a:0=1", "--sink", "a:0=2"), "--sink says a:0 more than once"),
        (("--state", "a:0=1", "--state", "a:0=1"), "--state says a:0 more than once"),
        (("--quota", "c=1MB", "--quota", "c=2MB"), "--quota says c more than once"),
        (("--waive", "live=a", "--waive", "live=b"), "--waive says live more than once"),
        (("--quota", "reader"), "CLIENT_ID=SIZE"),
        (("--waive", "live"), "GATE=REASON"),
        (("--waive", "love=it"), "love"),
        *(
            ((flag, ""), f"RCV-4008 {flag} is empty.")
            for flag in ("--savepoint", "--target", "--checkpoint", "--max-bytes-per-s", "--hold")
        ),
    ],
)
def test_what_cannot_be_meant_is_told_with_a_next_step(flags: tuple[str, ...], says: str) -> None:
    result = run(None, "runbook", "run", "shop", "--reason", "r", *flags, "--print-record", env=ENV)
    assert result.exit_code in {2, 4}
    assert says in result.stderr


def document_of(world: RunbookWorld) -> dict[str, Any]:
    return WorkflowForm().write(world.workflow)


@pytest.mark.scenario("S-RUN-26")
def test_one_page_says_what_is_seen_proposed_and_waited_for_and_in_the_end_what_was_done() -> None:
    world = RunbookWorld()
    world.begin(**world.marks)
    page = printed(*runbook_page(document_of(world)))
    for said in ("ALIGNED", "headroom", "resume", "ack w1 choose_path", "orders"):
        assert said in page
    assert page.count("\n") < 60
    world.go_through()
    page = printed(*describe(document_of(world), []))
    for said in ("waived", "compared with the ledger", "Closed", "0=100, 1=100", "nothing"):
        assert said in page


def test_handed_over_the_page_names_what_is_open_and_a_script_sees_that_it_was_not_done() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.ESCALATE)
    document = document_of(world)
    page = printed(*runbook_page(document))
    assert "Handed over" in page
    assert "execute is skipped" in page
    assert exit_code_of_state(document) == 1
