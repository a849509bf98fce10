"""`reset` and `rollback`, and how the other verbs show a workflow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import CommandRef, State
from recoveryd.recovery.spec import Earliest
from recoveryd.workflows.model.actions import AwaitEmpty, SetOffsets, TakeSnapshot
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.model.workflow import (
    Change,
    OffsetUndo,
    StepState,
    TopicUndo,
    UndoState,
    WaitingFor,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)
from tests.builders.core import to_document
from tests.cli.recoveries import NOW_MS, make_notice
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID, HASH = "reports-back", "sha256:0a1b"
PLAN = WorkflowPlan(
    HASH,
    (Change("offset", "orders", 0, 84_000, 61_200), Change("offset", "orders", 1, None, 0)),
    ("orders 1: offset 7 lies outside the log, which has [0, 5); set to 0",),
)
STEPS = (
    WorkflowStep("await_empty", AwaitEmpty("main", "reports"), StepState.DONE, "the group reports has no members", tries=4),
    WorkflowStep("snapshot", TakeSnapshot("main", "reports", ("orders",)), StepState.DONE, "noted", tries=1),
    WorkflowStep("set_offsets", SetOffsets("main", "reports")),
)  # fmt: skip
RUNNING = Workflow(
    id=ID,
    state=State.RUNNING,
    why="plan made: 2 offsets of reports are to be set",
    version=3,
    created_ms=NOW_MS,
    updated_ms=NOW_MS + 5_000,
    command=CommandRef("c-1", "//ops/alice", "a bug since Friday"),
    verb="reset",
    unit=None,
    spec=ResetSpec("main", "reports", Earliest()),
    control_offset=41,
    plan=PLAN,
    steps=STEPS,
)
WAITING = replace(
    RUNNING,
    state=State.WAITING,
    why="the group reports has 1 members: busy on host",
    steps=(replace(STEPS[0], state=StepState.WAITING), *STEPS[1:]),
    waiting_for=WaitingFor("group_empty", "await_empty", NOW_MS, NOW_MS + 600_000, ("busy on host",)),
)
PLANNED = replace(RUNNING, state=State.PLANNED, why="dry run: 2 offsets of reports are to be set")
COMPLETED = replace(
    RUNNING,
    state=State.COMPLETED,
    why="2 offsets of reports are set, and were read back",
    steps=(*STEPS[:2], replace(STEPS[2], state=StepState.DONE, why="set", tries=1)),
    undo=(OffsetUndo("orders", 0, 84_000, 61_200), OffsetUndo("orders", 1, None, 0)),
)
FAILED = replace(RUNNING, state=State.FAILED, why="set_offsets: no answer", error_code=Code.STEP_FAILED.value)
ROLLED_BACK = replace(
    COMPLETED,
    state=State.ROLLED_BACK,
    why="1 offsets of reports are as they were before; 1 were changed by somebody else since, and stay",
    undo=(replace(COMPLETED.undo[0], state=UndoState.DONE), replace(COMPLETED.undo[1], state=UndoState.KEPT)),
)
OWNED = replace(RUNNING, state=State.AWAITING_APPROVAL, unit="reports", why="waits for approval by one of //ops/kim")
ARGS = ("reset", "--group", "reports", "--reason", "r", "--id", ID)
WIDE: dict[str, str | None] = {"COLUMNS": "200"}
ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", **WIDE}


def data_of(*flags: str) -> dict[str, Any]:
    """The data of the record that these flags print, without the reason."""
    result = run(None, "reset", "--reason", "r", *flags, "--print-record", "-o", "json", env=ENV)
    assert result.exit_code == 0, result.stderr
    data: dict[str, Any] = json.loads(json.loads(result.stdout)["value"])["data"]
    assert data.pop("reason") == "r"
    return data


GROUP = ("--group", "reports", "--to")


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        ((*GROUP, "earliest"), {"to": "earliest"}),
        ((*GROUP, "offset:17"), {"to": {"offset": 17}}),
        ((*GROUP, "shift:-5"), {"to": {"shift": -5}}),
        ((*GROUP, "snapshot:w1"), {"to": {"snapshot": "w1"}}),
        ((*GROUP, "savepoint:before"), {"to": {"savepoint": "before"}}),
        ((*GROUP, "-2h"), {"to": "-2h"}),
        ((*GROUP, "2026-11-20T00:00:00Z"), {"to": "2026-11-20T00:00:00Z"}),
        ((*GROUP, '{"offset":3}'), {"to": {"offset": 3}}),
        ((*GROUP, "latest", "--topic", "a", "--topic", "b"), {"to": "latest", "topics": ["a", "b"]}),
        ((*GROUP, "latest", "--topic", "a:0,2"), {"to": "latest", "topics": {"a": [0, 2]}}),
        (
            (*GROUP, "latest", "--topic", "a:1", "--topic", "b:0", "--topic", "a:0"),
            {"to": "latest", "topics": {"a": [1, 0], "b": [0]}},
        ),
        (
            (*GROUP, "latest", "--confirm", "outputs=a", "--confirm", "scope=b"),
            {"to": "latest", "confirm": {"outputs": "a", "scope": "b"}},
        ),
        ((*GROUP, "offset:010"), {"to": {"offset": 10}}),
        ((*GROUP, "latest", "--cluster", "dr"), {"to": "latest", "cluster": "dr"}),
        (
            (*GROUP, "latest", "--on-out-of-range", "clamp", "--on-no-record", "at_end"),
            {"to": "latest", "on_out_of_range": "clamp", "on_no_record": "at_end"},
        ),
        ((*GROUP, "latest", "--plan-only"), {"to": "latest", "dry_run": True}),
        ((*GROUP, "latest", "--state", "keep"), {"to": "latest", "state": "keep"}),
        ((*GROUP, "latest", "--state", "clean"), {"to": "latest", "state": "clean"}),
        ((*GROUP, "latest", "--plan-hash", HASH), {"to": "latest", "plan_hash": HASH}),
    ],
)
def test_each_flag_has_its_field(flags: tuple[str, ...], data: dict[str, Any]) -> None:
    assert data_of(*flags) == {"group": "reports", **data}


def test_a_unit_stands_for_its_group() -> None:
    assert data_of("--unit", "reports", "--to", "latest") == {"unit": "reports", "to": "latest"}


def test_a_file_gives_topics_and_offsets_of_this_group(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('"reports","orders",0,17\n"other","orders",0,1\n"reports","orders",1,4\n')
    assert data_of("--group", "reports", "--from-file", str(file)) == {
        "group": "reports",
        "to": {"offsets": {"orders": {"0": 17, "1": 4}}},
        "topics": ["orders"],
    }


@pytest.mark.parametrize("flags", [(), ("--to", "current")])
def test_an_export_prints_the_plan_as_csv_and_changes_nothing(flags: tuple[str, ...]) -> None:
    backend = ScriptedBackend(becomes=[to_document(RUNNING), to_document(PLANNED)])
    result = run(backend, *ARGS, "--export", *flags, env=ENV)
    assert (result.exit_code, result.stdout) == (0, "reports,orders,0,61200\nreports,orders,1,0\n")
    assert backend.sent[0]["data"] == {"reason": "r", "group": "reports", "to": "current", "dry_run": True}


def test_an_export_needs_no_reason_since_it_changes_nothing() -> None:
    backend = ScriptedBackend(becomes=[to_document(PLANNED)])
    result = run(backend, "reset", "--group", "reports", "--export", "--id", ID, env=ENV)
    assert (result.exit_code, result.stdout) == (0, "reports,orders,0,61200\nreports,orders,1,0\n")
    assert backend.sent[0]["data"]["reason"] == "offsets are exported"


def test_an_export_without_a_plan_says_why() -> None:
    refused = replace(PLANNED, state=State.REJECTED, why="no topics", plan=None, error_code=Code.NOTHING_TO_DO.value)
    backend = ScriptedBackend(becomes=[to_document(refused)])
    result = run(backend, *ARGS, "--export", env=ENV)
    assert (result.exit_code, "no topics" in result.stdout) == (4, True)


def test_files_are_about_the_group_of_a_unit(tmp_path: Path) -> None:
    config, file = tmp_path / "recoveryd.yaml", tmp_path / "offsets.csv"
    config.write_text(
        "clusters: {main: {bootstrap.servers: 'a:1'}}\nunits: {sink: {kind: connect, group: files, inputs: [orders]}}\n"
    )
    file.write_text('"connect-files","orders",0,17\n"files","orders",0,1\n')
    known = ("--unit", "sink", "--config", str(config))
    assert data_of(*known, "--from-file", str(file))["to"] == {"offsets": {"orders": {"0": 17}}}
    result = run(None, "reset", "--reason", "r", "--unit", "sinc", "--config", str(config), "--from-file", str(file))
    assert (result.exit_code, "no unit 'sinc'" in result.stderr) == (3, True)


def test_an_export_of_a_unit_that_only_the_daemon_knows_has_its_group() -> None:
    backend = ScriptedBackend(becomes=[to_document(replace(PLANNED, unit="sink"))])
    result = run(backend, "reset", "--unit", "sink", "--export", "--id", ID, env=ENV)
    assert (result.exit_code, result.stdout) == (0, "reports,orders,0,61200\nreports,orders,1,0\n"), result.stderr


def test_a_file_without_groups_is_about_a_unit_that_only_the_daemon_knows(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,17\norders,1,4\n")
    assert data_of("--unit", "sink", "--from-file", str(file))["to"] == {"offsets": {"orders": {"0": 17, "1": 4}}}


def test_a_file_with_groups_is_not_sent_where_nobody_knows_which_is_that_of_the_unit(tmp_path: Path) -> None:
    backend, file = ScriptedBackend(), tmp_path / "offsets.csv"
    file.write_text("orders,0,17\nfiles,orders,1,4\n")
    result = run(backend, "reset", "--reason", "r", "--unit", "sink", "--from-file", str(file), env=ENV)
    assert (result.exit_code, backend.sent) == (3, [])
    assert result.stderr.startswith(f"RCV-1040 {file}: line 2 is of the group 'files', and the config here has no unit")
    assert "\n  next: Give --group instead, or --config" in result.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--to", "latest"), "--unit or --group"),
        (("--group", "g", "--unit", "u", "--to", "latest"), "--unit or --group"),
        (("--group", "g"), "--to"),
        (("--group", "g", "--to", "latest", "--from-file", "x"), "--to"),
        (("--group", "g", "--from-file", "no-such-file"), "no-such-file"),
        (("--group", "g", "--to", "latest", "--topic", "a:0", "--topic", "b"), "b names no partitions"),
        (("--group", "g", "--to", "latest", "--topic", "a:x"), "a:x is not TOPIC:0,2"),
        (("--group", "g", "--to", "earlyest"), "Did you mean earliest?"),
        (("--group", "g", "--to", "{"), "--to { is not JSON"),
        (("--group", "g", "--to", "offset:x"), "offset:x"),
        *(
            ((*GROUP, to), to)
            for to in ("offset:--5", "shift:--5", "shift:-", "offset:", "offset:1_0", "offset:\u0663")
        ),
        ((*GROUP, '{"offsets": {"a": {"0": 1, "0": 2}}}'), "'0' is given twice"),
        ((*GROUP, '{"offset": NaN}'), "NaN"),
        ((*GROUP, "latest", "--topic", "a:0,1", "--topic", "a:1"), "names a partition of a more than once"),
        ((*GROUP, "latest", "--topic", "a:1_0"), "a:1_0 is not TOPIC:0,2"),
        ((*GROUP, "latest", "--topic", "a:-1"), "a:-1 is not TOPIC:0,2"),
        ((*GROUP, "latest", "--confirm", "scope=a", "--confirm", "scope=b"), "--confirm says scope more than once"),
    ],
)
def test_a_line_that_says_nothing_good_is_refused_and_sends_nothing(flags: tuple[str, ...], says: str) -> None:
    backend = ScriptedBackend()
    result = run(backend, "reset", "--reason", "r", *flags, env=ENV)
    assert (result.exit_code, backend.sent) == (2, []), result.stderr
    assert says in result.stderr


def send(*flags: str, becomes: list[Workflow], **more: Any) -> tuple[Any, ScriptedBackend]:
    backend = ScriptedBackend(becomes=[to_document(workflow) for workflow in becomes], **more)
    return run(backend, *ARGS, "--to", "earliest", *flags, env=ENV), backend


def test_it_sends_one_command_and_shows_what_is_to_change() -> None:
    result, backend = send(becomes=[RUNNING])
    assert (result.exit_code, [c["type"] for c in backend.sent]) == (0, ["io.recoveryd.command.reset.v1"])
    for part in (ID, HASH, "orders", "84,000", "61,200", "set to 0"):
        assert part in result.stdout, result.stdout


@pytest.mark.parametrize(
    ("ends", "exit_code"),
    [(COMPLETED, 0), (FAILED, 1), (replace(FAILED, error_code=Code.GROUP_NOT_EMPTY.value), 1), (OWNED, 7)],
)
def test_waiting_ends_with_the_code_of_the_state(ends: Workflow, exit_code: int) -> None:
    result, _ = send("--wait", becomes=[RUNNING, WAITING, ends])
    assert result.exit_code == exit_code, result.stderr
    assert "waiting" in result.stderr
    assert "has 1 members: busy on host" in result.stderr


@pytest.mark.parametrize("flags", [(), ("--wait",)])
def test_waiting_for_approval_is_exit_code_7_and_says_how_to_approve(flags: tuple[str, ...]) -> None:
    result, _ = send(*flags, becomes=[OWNED])
    assert result.exit_code == 7
    assert f"recoveryctl approve {ID} --plan-hash {HASH}" in result.stderr


def test_waiting_too_long_is_exit_code_8() -> None:
    result, _ = send("--wait", "--timeout", "50ms", becomes=[RUNNING])
    assert result.exit_code == 8


def test_a_dry_run_stays_until_the_plan_is_there() -> None:
    result, backend = send("--plan-only", becomes=[RUNNING, PLANNED])
    assert (result.exit_code, backend.sent[0]["data"]["dry_run"]) == (0, True)
    assert "dry run" in result.stdout


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(Code.GROUP_TYPE, 4), (Code.STALE_PLAN, 6), (Code.NOT_AUTHORISED, 5), (Code.UNKNOWN_UNIT, 4)],
)
def test_a_refusal_is_the_exit_code(code: Code, exit_code: int) -> None:
    result, _ = send(becomes=[], answer=refuse_with(code))
    assert result.exit_code == exit_code
    assert result.stderr.startswith(f"{code.value} No.")


def roll_back(*flags: str, becomes: list[Workflow], **more: Any) -> tuple[Any, ScriptedBackend]:
    """Of a reset that failed, whose status is still that when the answer is there."""
    backend = ScriptedBackend({ID: to_document(FAILED)}, becomes=[to_document(w) for w in becomes], **more)
    return run(backend, "rollback", ID, "--reason", "it was wrong", *flags, env=ENV), backend


def test_rollback_sends_its_command_and_shows_what_comes_after_it() -> None:
    result, backend = roll_back(becomes=[RUNNING])
    assert [(c["type"], c["subject"], c["data"]) for c in backend.sent] == [
        ("io.recoveryd.command.rollback.v1", ID, {"reason": "it was wrong"})
    ]
    assert (result.exit_code, "plan made" in result.stdout, "no answer" in result.stdout) == (0, True, False)


@pytest.mark.parametrize(
    ("ends", "exit_code"), [(ROLLED_BACK, 0), (FAILED, 1), (replace(FAILED, state=State.STOPPED), 1)]
)
def test_rollback_wait_does_not_take_the_state_from_before_for_its_own(ends: Workflow, exit_code: int) -> None:
    result, backend = roll_back("--wait", becomes=[RUNNING, ends])
    assert (result.exit_code, backend.becomes) == (exit_code, []), result.stderr


def test_rollback_of_what_is_nowhere_or_done_is_refused() -> None:
    result, _ = roll_back(becomes=[], answer=refuse_with(Code.NOT_IN_THIS_STATE))
    assert result.exit_code == 4
    result, _ = roll_back(becomes=[], answer=refuse_with(Code.NO_SUCH_RECOVERY))
    assert result.exit_code == 3


def test_describe_shows_changes_steps_and_whom_it_waits_for() -> None:
    backend = ScriptedBackend(
        {ID: to_document(WAITING)}, timeline=[make_notice("step_started", {"step": "await_empty"}, ID)]
    )
    shown = run(backend, "describe", ID, env=WIDE).stdout
    for part in (
        "workflow",
        HASH,
        "84,000",
        "Steps",
        "await_empty",
        "set_offsets",
        "group_empty",
        "busy on host",
        "step_started",
    ):
        assert part in shown, shown
    assert "no limit" not in shown


def test_describe_says_since_when_nobody_answers() -> None:
    assert WAITING.waiting_for is not None
    silent = replace(
        WAITING.waiting_for, unanswered_since_ms=NOW_MS, last_error="Could not describe reports: timed out"
    )
    backend = ScriptedBackend({ID: to_document(replace(WAITING, waiting_for=silent))})
    shown = run(backend, "describe", ID, env=WIDE).stdout
    assert "Could not describe reports: timed out" in shown
    assert "no answer since" in shown
    assert "no answer since" not in run(ScriptedBackend({ID: to_document(WAITING)}), "describe", ID, env=WIDE).stdout


def test_describe_says_what_was_left_as_others_set_it() -> None:
    shown = run(ScriptedBackend({ID: to_document(ROLLED_BACK)}), "describe", ID, env=WIDE).stdout
    assert "1 of what it noted stay as they are: somebody else set them, or it did not." in shown
    assert "went with" not in shown


def test_describe_counts_no_topic_that_was_somebody_elses_before_the_plan() -> None:
    noted = replace(COMPLETED, undo=(TopicUndo("totals", "id", state=UndoState.KEPT, cluster="main"),))
    shown = run(ScriptedBackend({ID: to_document(noted)}), "describe", ID, env=WIDE).stdout
    assert "stay as they are" not in shown


def test_describe_says_which_offsets_went_with_their_topics() -> None:
    kept = (
        *(replace(row, state=UndoState.KEPT) for row in COMPLETED.undo),
        TopicUndo("orders", "id", None, is_gone=True),
    )
    shown = run(ScriptedBackend({ID: to_document(replace(ROLLED_BACK, undo=kept))}), "describe", ID, env=WIDE).stdout
    assert "2 offsets went with their topics." in shown
    assert "somebody else set them" not in shown


def test_list_get_and_wait_know_workflows() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)})
    listed = run(backend, "list", env=WIDE).stdout
    assert (ID in listed, "66%" in listed) == (True, True), listed
    got = json.loads(run(backend, "get", ID, "-o", "json").stdout)
    assert (got["kind"], got["workflow"], got["unit"], "internal" in got) == ("workflow", "reset", None, False)
    assert got["plan"]["changes"][1] == {"what": "offset", "name": "orders", "partition": 1, "from": None, "to": 0}
    assert run(ScriptedBackend({ID: to_document(COMPLETED)}), "wait", ID).exit_code == 0
    assert run(ScriptedBackend({ID: to_document(ROLLED_BACK)}), "wait", ID).exit_code == 0
    assert run(ScriptedBackend({ID: to_document(OWNED)}), "wait", ID).exit_code == 7
    assert run(ScriptedBackend({ID: to_document(WAITING)}), "wait", ID, "--for", "waiting").exit_code == 0


def test_wait_stays_until_a_workflow_waits_at_a_step() -> None:
    later = replace(WAITING, version=4, waiting_for=replace(WAITING.waiting_for, step="set_offsets"))
    backend = ScriptedBackend({ID: to_document(WAITING)}, becomes=[to_document(RUNNING), to_document(later)])
    assert run(backend, "wait", ID, "--at", "set_offsets", "-o", "name").exit_code == 0
    assert backend.documents[ID]["waiting_for"]["step"] == "set_offsets"


@pytest.mark.parametrize(
    ("step", "hint"),
    [("set_ofsets", "Did you mean set_offsets?"), ("x", "Its steps are await_empty, snapshot, set_offsets.")],
)
@pytest.mark.parametrize("is_planned", [True, False])
def test_wait_at_a_step_that_there_is_not_is_refused_as_soon_as_the_steps_are_known(
    step: str, hint: str, is_planned: bool
) -> None:
    before = RUNNING if is_planned else replace(RUNNING, state=State.PLANNING, plan=None, steps=())
    backend = ScriptedBackend({ID: to_document(before)}, becomes=[to_document(RUNNING)])
    result = run(backend, "wait", ID, "--at", step)
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"RCV-1005 {ID} has no step `{step}`.\n  next: {hint}\n" in result.stderr


def test_wait_at_a_step_that_a_runbook_gets_on_its_way_is_no_mistake() -> None:
    before = {**to_document(RUNNING), "workflow": "runbook"}
    then = {
        **before,
        "version": 9,
        "waiting_for": {**to_document(WAITING)["waiting_for"], "step": "promote_or_discard"},
    }
    backend = ScriptedBackend({ID: before}, becomes=[then])
    assert run(backend, "wait", ID, "--at", "promote_or_discard", "-o", "name").exit_code == 0
    assert run(ScriptedBackend({ID: before}), "wait", ID, "--at", "promote_or_discar").exit_code == 3


def test_wait_at_a_step_of_what_has_none_is_refused() -> None:
    document = {**to_document(RUNNING), "kind": "replay"}
    result = run(ScriptedBackend({ID: document}), "wait", ID, "--at", "set_offsets")
    assert (result.exit_code, result.stderr.split()[0]) == (4, "RCV-1031")


def test_wait_at_a_step_that_cannot_come_any_more_fails() -> None:
    result = run(ScriptedBackend({ID: to_document(COMPLETED)}), "wait", ID, "--at", "set_offsets")
    assert result.exit_code == 1
    assert "ended as completed and does not wait at set_offsets" in result.stderr
    assert run(ScriptedBackend(), "wait", ID, "--at", "x", "--for", "paused").exit_code == 2


def test_watch_tells_each_step_once() -> None:
    done_one = replace(RUNNING, why="snapshot: noted", version=4)
    backend = ScriptedBackend(
        {ID: to_document(RUNNING)}, becomes=[to_document(w) for w in (done_one, WAITING, COMPLETED)]
    )
    result = run(backend, "watch", ID, env=WIDE)
    told = [line.split(" ", 1)[1].split(":")[0] for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert told == ["running 66%", "running 66%", "waiting", "completed 100%"]


def test_a_person_sees_the_changes_before_they_approve() -> None:
    backend = ScriptedBackend({ID: to_document(OWNED)})
    result = run(backend, "approve", ID, "--reason", "seen", interactive=True, typed="yes\n", env=WIDE)
    assert result.exit_code == 0, result.stderr
    assert "61,200" in result.stderr
    assert backend.sent[0]["data"] == {"plan_hash": HASH, "reason": "seen"}
