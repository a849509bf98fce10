"""What `retry` sends for what ended, and what it refuses."""

import getpass
from dataclasses import replace
from typing import Any

import pytest
import typer

from recoveryd.cli.app import app
from recoveryd.cli.send.backend import OutgoingRecord, Sent
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import CommandRef, State
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.model import Attempt, PartitionProgress, PlannedPartition, Progress, Recovery
from recoveryd.recovery.spec import AtTime, CaughtUp, Earliest, Latest, Limits, SourceRef
from recoveryd.replay.spec import Replay
from recoveryd.verification.spec import ComparedRef, VerificationSpec
from tests.builders.core import CODEC, to_document
from tests.cli.recoveries import NOW_MS, PLAN, RUNNING, in_state, make_answer
from tests.cli.scripted import ScriptedBackend, refuse_with, run
from tests.schedules.test_incremental import retry, stopped
from tests.schedules.world import CONTINUED, REPLAY, ScheduleWorld

FAILED = replace(
    RUNNING, state=State.FAILED, why="attempts are used up", error_code="RCV-3006", version=9, attempt=Attempt(1)
)
AT_START = Progress((PartitionProgress(0, 0, 84_000, "stopped"), PartitionProgress(1, 1_000, 51_000, "stopped")))
HALF = Progress((PartitionProgress(0, 84_000, 84_000, "done"), PartitionProgress(1, 26_000, 51_000, "stopped")))


def ended(recovery: Recovery) -> ScriptedBackend:
    return ScriptedBackend({recovery.id: to_document(recovery)}, becomes=[in_state(State.STARTING)])


def sent_for(recovery: Recovery, *more: str) -> dict[str, Any]:
    backend = ended(recovery)
    result = run(backend, "retry", recovery.id, "--id", "again", "--yes", *more)
    assert result.exit_code == 0, result.stderr
    [command] = backend.sent
    data: dict[str, Any] = command["data"]
    return data


def test_a_replay_goes_on_in_the_partitions_that_are_not_done_up_to_the_end_it_had() -> None:
    data = sent_for(replace(FAILED, progress=HALF))
    assert data["source"] == {
        "cluster": "main",
        "topic": "flights",
        "from": {"offsets": {"1": 26_000}, "others": "earliest", "topic_id": PLAN.source.topic_id},
        "to": {"offsets": {"1": 51_000}},
        "partitions": [1],
    }
    assert data["target"] == {
        "cluster": "main", "topic": "flights.v42", "create": False, "on_existing": "append", "mapping": "same",
    }  # fmt: skip
    assert data["reason"] == "retry of flights-rerun: wrong delay unit"
    assert "plan_hash" not in data


def test_one_that_follows_the_head_goes_on_following_with_all_its_partitions() -> None:
    spec = replace(RUNNING.spec, source=SourceRef("flights", Earliest(), CaughtUp()))
    data = sent_for(replace(FAILED, spec=spec, progress=HALF))
    assert data["source"]["from"]["offsets"] == {"0": 84_000, "1": 26_000}
    assert (data["source"]["to"], data["source"].get("partitions")) == ("caught_up", None)


def test_the_rest_of_one_that_began_at_a_time_leaves_out_what_is_older_too() -> None:
    spec = replace(RUNNING.spec, source=SourceRef("flights", AtTime(NOW_MS), Latest()))
    data = sent_for(replace(FAILED, progress=HALF, spec=spec, plan=replace(PLAN, from_time_ms=NOW_MS)))
    assert data["source"]["from"] == {
        "offsets": {"1": 26_000},
        "others": "earliest",
        "topic_id": PLAN.source.topic_id,
        "since": format_time_ms(NOW_MS),
    }
    assert hasattr(CODEC.encode("replay", "r", data, id="c", source="//s", time_ms=NOW_MS), "value")


def test_a_loss_that_its_command_accepts_is_passed() -> None:
    progress = Progress(tuple(replace(p, lost=9) for p in HALF.partitions))
    data = sent_for(replace(FAILED, progress=progress, spec=replace(RUNNING.spec, on_data_loss="continue")))
    assert (data["source"]["from"]["offsets"], data["on_data_loss"]) == ({"1": 26_000}, "continue")


def test_one_that_copied_nothing_is_asked_for_as_it_was_without_its_deadline() -> None:
    limits = Limits(max_bytes_per_s=5e6, max_runtime_ms=7_200_000, deadline_ms=NOW_MS)
    spec = replace(
        RUNNING.spec,
        limits=limits,
        plan_hash="sha256:old",
        target=replace(RUNNING.spec.target, headers_add=(("run", "2"),), headers_drop=("old",)),
    )
    data = sent_for(replace(FAILED, state=State.REJECTED, spec=spec, plan=None, progress=Progress()))
    refusal_or_command = CODEC.encode("replay", "r", data, id="c", source="//s", time_ms=NOW_MS)
    assert hasattr(refusal_or_command, "value")
    assert data["source"] == {"cluster": "main", "topic": "flights", "from": "earliest", "to": "latest"}
    assert (data["target"]["create"], data["target"]["headers"]) == (True, {"add": {"run": "2"}, "drop": ["old"]})
    assert data["limits"] == {
        "max_bytes_per_s": 5e6, "max_runtime": "2h", "weight": 1.0, "tier": 0, "override_live_slo": False,
    }  # fmt: skip
    assert Replay.verb == "replay"


def test_with_a_target_it_begins_from_its_start_in_a_new_topic() -> None:
    data = sent_for(replace(FAILED, progress=HALF, is_position_exact=False), "--target", "flights.v43")
    assert (data["source"]["from"], data["source"]["to"]) == ("earliest", "latest")
    assert (data["target"]["topic"], data["target"]["create"], data["target"]["on_existing"]) == (
        "flights.v43", True, "refuse",
    )  # fmt: skip


def test_a_verification_is_begun_again_as_a_whole() -> None:
    spec = VerificationSpec(SourceRef("flights", Earliest(), Latest()), ComparedRef("copy", headers_drop=("x",)))
    data = sent_for(replace(FAILED, kind="verification", spec=spec), "--reason", "look again")
    assert data["target"]["topic"] == "copy"
    assert (data["compare"], data["reason"]) == ("records", "look again")
    assert data["target"]["headers"] == {"add": {}, "drop": ["x"]}


@pytest.mark.parametrize(
    ("recovery", "said"),
    [
        (replace(FAILED, progress=HALF, is_position_exact=False), "is not known exactly"),
        # A chunk was committed, its answer was lost, and nobody could read its receipts at the end.
        (replace(FAILED, progress=AT_START, is_position_exact=False), "is not known exactly"),
        (replace(FAILED, progress=Progress(), is_position_exact=False), "is not known exactly"),
        (
            replace(FAILED, progress=Progress(tuple(replace(p, position=p.stop) for p in HALF.partitions))),
            "has copied all of its range",
        ),
        (
            replace(FAILED, progress=Progress(tuple(replace(p, lost=9) for p in HALF.partitions))),
            "to go on would pass over them",
        ),
        (replace(FAILED, progress=HALF, error_code="RCV-3001"), "to go on would pass over them"),
        (
            replace(
                FAILED,
                progress=HALF,
                error_code="RCV-3007",
                spec=replace(RUNNING.spec, source=SourceRef("flights", Earliest(), CaughtUp())),
            ),
            "is not what its source holds",
        ),
        (RUNNING, "is running; only what has failed or stopped"),
        (replace(FAILED, state=State.COMPLETED), "is completed; only what has failed or stopped"),
    ],
)
def test_what_cannot_be_done_exactly_is_refused_with_a_next_step(recovery: Recovery, said: str) -> None:
    backend = ended(recovery)
    result = run(backend, "retry", recovery.id, "--yes")
    assert (result.exit_code, backend.sent) == (4, [])
    assert result.stderr.startswith("RCV-1011")
    assert said in result.stderr
    assert "`recoveryctl" in result.stderr or "--target" in result.stderr


def refused(documents: list[dict[str, Any]], *more: str) -> str:
    backend = ScriptedBackend({document["recovery"]: document for document in documents})
    result = run(backend, "retry", FAILED.id, "--yes", *more)
    assert (result.exit_code, backend.sent) == (4, []), result.stderr
    return result.stderr


def later(state: State = State.FAILED, **changes: Any) -> dict[str, Any]:
    """A retry of what `HALF` left."""
    rest = replace(PLAN, partitions=(PlannedPartition(1, 26_000, 51_000),))
    made = replace(FAILED, id="again", created_ms=FAILED.created_ms + 60_000, plan=rest)
    return to_document(replace(made, **{"state": state, **changes}))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State.STOPPED, "recoveryctl retry again"),
        (State.RUNNING, "recoveryctl describe again"),
        (State.COMPLETED, "recoveryctl describe again"),
    ],
)
def test_the_rest_is_not_copied_twice(state: State, said: str) -> None:
    told = refused([to_document(replace(FAILED, progress=HALF)), later(state)])
    assert "was to be copied by again" in told
    assert said in told


NO_PLAN: dict[str, Any] = {"plan": None, "progress": Progress(), "attempt": Attempt()}


@pytest.mark.parametrize("state", [State.REQUESTED, State.PLANNING])
def test_a_later_one_whose_range_is_not_known_yet_may_be_copying_the_rest(state: State) -> None:
    told = refused([to_document(replace(FAILED, progress=HALF)), later(state, **NO_PLAN)])
    assert f"may be copied by again, which is {state.value}" in told
    assert "recoveryctl describe again" in told


@pytest.mark.parametrize("state", [State.PLANNING, State.RUNNING, State.FAILED])
def test_what_never_had_a_plan_is_not_asked_for_twice(state: State) -> None:
    rejected = replace(FAILED, state=State.REJECTED, **NO_PLAN)
    changes = NO_PLAN if state is State.PLANNING else {}
    told = refused([to_document(rejected), later(state, **changes)])
    assert "copied by again" in told
    elsewhere = replace(FAILED.spec, source=replace(FAILED.spec.source, partitions=(1,)))
    backend = ScriptedBackend(
        {FAILED.id: to_document(rejected), "again": later(state, spec=elsewhere, **changes)},
        becomes=[in_state(State.STARTING)],
    )
    assert run(backend, "retry", FAILED.id, "--yes").exit_code == 0


def asked(documents: list[dict[str, Any]], recovery: str = FAILED.id, *more: str) -> str:
    """The id under which it is tried again."""
    backend = ScriptedBackend(
        {document["recovery"]: document for document in documents}, becomes=[in_state(State.STARTING)]
    )
    result = run(backend, "retry", recovery, "--yes", *more)
    assert result.exit_code == 0, result.stderr
    [command] = backend.sent
    subject: str = command["subject"]
    return subject


HALF_DONE = to_document(replace(FAILED, progress=HALF))


def test_all_who_try_the_same_rest_again_ask_for_one_id_of_which_the_daemon_takes_the_first() -> None:
    backend = ScriptedBackend({FAILED.id: HALF_DONE}, answer=lambda _: None)
    results = [run(backend, "retry", FAILED.id, "--yes", "--timeout", "1s") for _ in range(2)]
    assert [result.exit_code for result in results] == [8, 8]
    first, second = backend.sent
    assert first["subject"] == second["subject"] == asked([HALF_DONE])
    assert first["id"] != second["id"]
    assert first["data"] == second["data"]
    again = refuse_with(Code.ID_IN_USE, f"recovery {first['subject']} exists already and is planning")
    result = run(ScriptedBackend({FAILED.id: HALF_DONE}, answer=again), "retry", FAILED.id, "--yes")
    assert result.exit_code == 4
    assert "RCV-1008 flights-rerun is tried again already" in result.stderr
    assert f"Look at that one: `recoveryctl describe {first['subject']}`." in result.stderr
    assert "Choose another" not in result.stderr


def test_an_id_that_was_chosen_and_is_in_use_is_told_as_the_daemon_tells_it() -> None:
    backend = ScriptedBackend({FAILED.id: HALF_DONE}, answer=refuse_with(Code.ID_IN_USE))
    result = run(backend, "retry", FAILED.id, "--id", "nightly", "--yes")
    assert (result.exit_code, "tried again already" in result.stderr) == (4, False)


@pytest.mark.parametrize(
    ("state", "plan", "is_same"),
    [
        (State.REJECTED, None, True),  # the daemon would take an old command for it as well
        (State.EXPIRED, PLAN, True),
        (State.PLANNED, PLAN, True),
        (State.FAILED, None, False),
        (State.STOPPED, None, False),
    ],
)
def test_after_a_retry_that_copied_nothing_the_rest_is_asked_for_as_before(
    state: State, plan: Any, is_same: bool
) -> None:
    first = asked([HALF_DONE])
    ended = later(state, **{**NO_PLAN, "plan": plan, "id": first})
    second = asked([HALF_DONE, ended])
    assert (second == first) is is_same
    if state is State.PLANNED:
        return
    # Who tries that retry again means the same rest, and so asks for the same id.
    assert asked([HALF_DONE, ended], first) == second
    both = [HALF_DONE, ended] if is_same else [HALF_DONE, ended, later(state, **NO_PLAN, id=second)]
    third = asked(both)
    assert {asked(both, name) for name in (first, second)} == {third}
    assert is_same or len({first, second, third}) == 3


def planning(state: State, name: str) -> dict[str, Any]:
    """Somebody's dry run of the retry, which has no plan yet."""
    return later(state, **NO_PLAN, id=name, spec=replace(FAILED.spec, dry_run=True))


@pytest.mark.parametrize(
    ("state", "is_same"),
    [(State.REQUESTED, True), (State.PLANNING, True), (State.FAILED, False), (State.STOPPED, False)],
)
def test_while_a_plan_of_the_rest_is_made_there_is_no_second_id_for_it(state: State, is_same: bool) -> None:
    """Whoever asked for that plan will send the first one."""
    first = asked([HALF_DONE])
    assert (asked([HALF_DONE, planning(state, first)]) == first) is is_same


@pytest.mark.parametrize("more", [("--yes",), ("--plan-only",), ()])
def test_whoever_comes_while_a_plan_of_the_rest_is_made_is_told_that_nothing_is_begun(more: tuple[str, ...]) -> None:
    """Also where its status was not there yet when the id was made."""
    first = asked([HALF_DONE])

    class Unseen(ScriptedBackend):
        def statuses(self) -> dict[str, Any]:
            return {FAILED.id: HALF_DONE}

    for kind in (ScriptedBackend, Unseen):
        documents = {FAILED.id: HALF_DONE, first: planning(State.PLANNING, first)}
        backend = kind(documents, answer=refuse_with(Code.ID_IN_USE))
        result = run(backend, "retry", FAILED.id, *more, interactive=True)
        assert (result.exit_code, [command["subject"] for command in backend.sent]) == (4, [first])
        assert "A plan of what flights-rerun left is being made" in result.stderr
        assert f"in a moment, without another id: `recoveryctl retry {FAILED.id}`" in result.stderr
        assert "tried again already" not in result.stderr


def test_what_a_retry_left_is_tried_again_under_an_id_of_its_own() -> None:
    first = asked([HALF_DONE])
    reached = Progress((PartitionProgress(1, 30_000, 51_000, "stopped"),))
    stopped = later(State.STOPPED, id=first, progress=reached, attempt=Attempt(1))
    assert f"recoveryctl retry {first}" in refused([HALF_DONE, stopped])
    second = asked([HALF_DONE, stopped], first)
    assert second not in {FAILED.id, first}
    assert second == asked([stopped], first)  # also when the first of them is forgotten


def test_a_recovery_under_an_id_that_was_forgotten_has_retries_of_its_own() -> None:
    reborn = to_document(replace(FAILED, progress=HALF, command=replace(FAILED.command, id="another")))
    assert asked([HALF_DONE]) != asked([reborn])


@pytest.mark.parametrize("topic", ["flights", "x" * 200, "A._"])
def test_the_id_of_a_retry_is_one_however_long_its_topic_is_called(topic: str) -> None:
    spec = replace(FAILED.spec, source=replace(FAILED.spec.source, topic=topic))
    made = asked([to_document(replace(FAILED, spec=spec, plan=None, progress=Progress(), attempt=Attempt()))])
    assert 9 < len(made) <= 50


def test_what_somebody_else_began_while_a_plan_was_read_is_seen() -> None:
    class Late(ScriptedBackend):
        def send(self, record: OutgoingRecord) -> Sent:
            sent = super().send(record)
            self.documents["theirs"] = later(State.RUNNING, id="theirs")
            return sent

    backend = Late({FAILED.id: HALF_DONE}, becomes=[in_state(State.PLANNED)])
    result = run(backend, "retry", FAILED.id, "--id", "mine", interactive=True, typed="y\n")
    assert (result.exit_code, [command["data"]["dry_run"] for command in backend.sent]) == (4, [True])
    assert "was to be copied by theirs" in result.stderr


def begun(command_id: str) -> dict[str, Any]:
    """A retry of what `HALF` left, by a command of this user."""
    source = f"//recoveryctl/{getpass.getuser()}"
    return later(State.RUNNING, id="again", command=CommandRef(command_id, source, "r"))


@pytest.mark.parametrize(("more", "is_asked"), [(("--yes",), False), ((), True)])
def test_the_very_command_that_tried_it_again_is_sent_again_and_carried_out_once(
    more: tuple[str, ...], is_asked: bool
) -> None:
    def answer(command: dict[str, Any]) -> dict[str, Any]:
        code = None if command["id"] == "C" else Code.ID_IN_USE
        return make_answer(command, "rejected" if code else "duplicate", code)

    backend = ScriptedBackend({FAILED.id: HALF_DONE, "again": begun("C")}, answer=answer)
    result = run(backend, "retry", FAILED.id, "--command-id", "C", "--id", "again", *more, interactive=True)
    assert result.exit_code == 0, result.stderr
    assert [(command["id"], command["subject"]) for command in backend.sent][is_asked:] == [("C", "again")]


@pytest.mark.parametrize("args", [("--command-id", "D", "--id", "again"), ("--command-id", "C"), ("--id", "again")])
def test_every_other_command_for_that_rest_is_refused(args: tuple[str, ...]) -> None:
    """Also the same id of a command for a new recovery, of which the daemon might remember nothing."""
    assert "was to be copied by again" in refused([HALF_DONE, begun("C")], *args)


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": replace(PLAN, partitions=(PlannedPartition(0, 0, 84_000), PlannedPartition(1, 0, 26_000)))},
        {"created_ms": FAILED.created_ms - 60_000},
        {"state": State.PLANNED},
        {"spec": replace(FAILED.spec, target=replace(FAILED.spec.target, topic="elsewhere"))},
        {"plan": None, "progress": Progress()},
    ],
)
def test_what_had_nothing_of_the_rest_does_not_stand_in_the_way(changes: dict[str, Any]) -> None:
    document = to_document(replace(FAILED, progress=HALF))
    backend = ScriptedBackend({FAILED.id: document, "again": later(**changes)}, becomes=[in_state(State.STARTING)])
    result = run(backend, "retry", FAILED.id, "--id", "third", "--yes")
    assert (result.exit_code, len(backend.sent)) == (0, 1), result.stderr


def test_one_that_follows_the_head_covers_everything_behind_its_start() -> None:
    following = replace(PLAN, partitions=(PlannedPartition(1, 40_000, None),))
    assert "again" in refused([to_document(replace(FAILED, progress=HALF)), later(State.RUNNING, plan=following)])


def of_0_1_0(recovery: Recovery) -> dict[str, Any]:
    """It did not say whether positions are exact."""
    document = to_document(recovery)
    internal = {name: value for name, value in document["internal"].items() if name != "is_position_exact"}
    return {**document, "internal": internal}


@pytest.mark.parametrize("progress", [HALF, AT_START])
def test_positions_of_a_release_that_did_not_say_whether_they_are_exact_are_not_used(progress: Progress) -> None:
    told = refused([of_0_1_0(replace(FAILED, progress=progress))])
    assert "is not known exactly" in told
    assert "--target TOPIC" in told


def test_what_never_had_an_attempt_copied_nothing_in_any_release() -> None:
    document = of_0_1_0(replace(FAILED, attempt=Attempt(), plan=None, progress=Progress()))
    backend = ScriptedBackend({FAILED.id: document}, becomes=[in_state(State.STARTING)])
    result = run(backend, "retry", FAILED.id, "--id", "again", "--yes")
    assert (result.exit_code, len(backend.sent)) == (0, 1), result.stderr


def test_a_replay_that_was_read_back_at_its_start_begins_where_it_was_asked_to() -> None:
    assert sent_for(replace(FAILED, progress=AT_START))["source"]["from"] == "earliest"


COPIED = Progress(
    (PartitionProgress(0, 84_000, 84_000, "done", 84_000, bytes=900), PartitionProgress(1, 26_000, 51_000, "x", 25_000))
)


def test_caps_are_of_the_whole() -> None:
    spec = replace(RUNNING.spec, limits=Limits(max_records=110_000, max_bytes=1_000))
    data = sent_for(replace(FAILED, progress=COPIED, spec=spec))
    assert (data["limits"]["max_records"], data["limits"]["max_bytes"]) == (1_000, 100)


@pytest.mark.parametrize("limits", [Limits(max_records=109_000), Limits(max_bytes=900)])
def test_a_cap_that_is_used_up_is_told(limits: Limits) -> None:
    spec = replace(RUNNING.spec, limits=limits)
    told = refused([to_document(replace(FAILED, progress=COPIED, spec=spec))])
    assert "has copied as much as its limits.max_" in told


def test_the_rest_goes_to_the_topic_that_has_the_beginning_and_to_no_other_of_its_name() -> None:
    plan = replace(PLAN, target=replace(PLAN.target, topic_id="dGFyZ2V0"))
    failed = replace(FAILED, progress=HALF, plan=plan)
    assert sent_for(failed)["target"]["topic_id"] == "dGFyZ2V0"
    assert "topic_id" not in sent_for(failed, "--target", "flights.v43")["target"]


@pytest.mark.parametrize(
    ("data", "is_ended", "code"), [(CONTINUED, False, 4), (CONTINUED, True, 0), (REPLAY, False, 0)]
)
def test_a_run_that_the_next_one_of_its_schedule_continues_is_left_to_that(
    data: dict[str, Any], is_ended: bool, code: int
) -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=50)
    world.add("*/5 * * * *", data=data, max_runtime="20s")
    world.second(90)
    if is_ended:
        world.command("unschedule")
    (stopped,) = world.runs()
    assert world.recovery(stopped).state is State.STOPPED
    documents = {stopped: to_document(world.recovery(stopped)), "nightly": to_document(world.schedule())}
    backend = ScriptedBackend(documents, becomes=[in_state(State.STARTING)])
    result = run(backend, "retry", stopped, "--id", "again", "--yes")
    assert (result.exit_code, len(backend.sent)) == (code, int(code == 0)), result.stderr
    assert ("The next run of the schedule nightly goes on where" in result.stderr) is bool(code)


def test_so_is_a_retry_behind_which_the_schedule_was_made_again() -> None:
    world = ScheduleWorld(ends=(3_000, 0), speed=50)
    retry(world, stopped(world), "again", max_runtime="10s")
    world.run_until(State.STOPPED, recovery_id="again")
    world.add("*/5 * * * *", data=CONTINUED)
    documents = {name: to_document(world.recovery(name)) for name in world.runs()}
    result = run(ScriptedBackend({**documents, "nightly": to_document(world.schedule())}), "retry", "again", "--yes")
    assert (result.exit_code, "goes on where again stopped" in result.stderr) == (4, True)


def test_an_unknown_id_is_told() -> None:
    result = run(ScriptedBackend(), "retry", "nobody", "--yes")
    assert (result.exit_code, result.stderr.split()[0]) == (3, "RCV-1010")


@pytest.mark.parametrize(
    ("what", "verb"),
    [
        ({"kind": "workflow", "workflow": "reset"}, "reset"),
        ({"kind": "workflow", "workflow": "savepoint"}, "savepoint create"),
        ({"kind": "workflow", "workflow": "restore_savepoint"}, "restore-savepoint"),
        ({"kind": "workflow", "workflow": "runbook"}, "runbook run"),
        ({"kind": "watch"}, "watch-group"),
        ({"kind": "schedule"}, "schedule add"),
        ({"kind": "hold"}, "hold"),
    ],
)
def test_other_kinds_are_refused_by_name_and_by_the_verb_that_begins_them(what: dict[str, str], verb: str) -> None:
    document = {**to_document(FAILED), **what, "recovery": "w1"}
    result = run(ScriptedBackend({"w1": document}), "retry", "w1", "--yes")
    assert result.exit_code == 4
    assert f"w1 is a {what.get('workflow') or what['kind']};" in result.stderr
    assert f"with `recoveryctl {verb}`, under a new id" in result.stderr
    found: Any = typer.main.get_command(app)
    for word in verb.split():
        found = found.commands[word]
