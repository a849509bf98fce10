"""`savepoint` and `restore-savepoint`: what they send, and how savepoints are shown."""

import json
from typing import Any

import pytest

from recoveryd.cli.render.cut_diffs import diff_document, diff_parts
from recoveryd.wire.nouns import NounForm
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.cut import STOOD, Cut, CutTopic
from recoveryd.workflows.model.cut_diff import StoreDiff
from tests.cli.scripted import ScriptedBackend, run

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


def test_what_came_to_a_copy_later_is_told_beside_the_stores_that_are_compared() -> None:
    stores = [StoreDiff("sums", 2, 2), StoreDiff("counts", 2, 3, 1, later_before=1_200, later_after=1)]
    document = diff_document("monday", "tuesday", (), stores)
    assert [(store["later_before"], store["later_after"]) for store in document["stores"]] == [(0, 0), (1_200, 1)]
    assert [part for part in diff_parts(document) if isinstance(part, str) and "later" not in part and part] == [
        "Up to 1,200 records came to the copy of counts after monday was made. They are not compared.",
        "Up to 1 records came to the copy of counts after tuesday was made. They are not compared.",
    ]


def taken(name: str, at_ms: int, why: str, *, is_exact: bool = True) -> dict[str, Any]:
    """The status of a savepoint with internal topics."""
    topics = (CutTopic("app-sums-changelog", "copy", TopicForm("app-sums-changelog", 1, 1)),)
    cut = NounForm(Cut).write(Cut(name, "shop", "main", "app", at_ms, topics=topics, is_exact=is_exact))
    return {"recovery": name, "workflow": "savepoint", "state": "completed", "cut": {**cut, "why": why}}


def test_the_list_says_of_cuts_of_an_earlier_release_what_is_known_of_them() -> None:
    documents = [taken("old", 1_000, STOOD), taken("new", 2_000, f"{STOOD}, and it had ended as it was told to")]
    backend = ScriptedBackend({document["recovery"]: document for document in documents})
    result = run(backend, "savepoint", "list", env=ENV)
    assert result.exit_code == 0, result.stderr
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert " yes " in rows["new"]
    assert " if stopped cleanly " in rows["old"]


def delete(*flags: str, states: tuple[str, ...]) -> tuple[Any, ScriptedBackend]:
    """A savepoint is deleted, and is in these states one after the other then."""
    there = {**taken("old", 1_000, STOOD), "version": 3, "why": "taken"}
    later = [{**there, "state": state, "why": f"it is {state} now"} for state in states]
    backend = ScriptedBackend({"old": there}, becomes=list(later))
    return run(backend, "savepoint", "delete", "old", "--reason", "r", *flags, env=ENV), backend


@pytest.mark.parametrize(("ends", "exit_code"), [("rolled_back", 0), ("failed", 1), ("stopped", 1)])
def test_to_wait_for_a_deletion_ends_however_that_ends(ends: str, exit_code: int) -> None:
    result, backend = delete("--wait", "--timeout", "5s", states=("running", ends))
    assert (result.exit_code, backend.becomes) == (exit_code, []), result.stderr
    assert [(c["type"], c["subject"], c["data"]) for c in backend.sent] == [
        ("io.recoveryd.command.rollback.v1", "old", {"reason": "r"})
    ]


def test_a_deletion_shows_what_comes_after_its_command() -> None:
    result, _ = delete(states=("running",))
    assert (result.exit_code, "it is running now" in result.stdout) == (0, True), result.stderr
