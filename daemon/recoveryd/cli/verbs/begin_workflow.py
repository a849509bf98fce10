"""What every verb that asks for a workflow does once its data is made."""

from collections.abc import Callable
from typing import Annotated

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import id_option, option
from recoveryd.cli.render.showing import say_how_to_approve, show_recovery
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.sending import Staying, begin, quiet_status, send
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.cli.status import Document, has_ended, is_settled
from recoveryd.kernel.states import State

NewId = Annotated[str | None, id_option("Id of the workflow; made from the unit or savepoint when left out.")]
PlanOnly = Annotated[bool, option("--plan-only", "Make and show the plan; nothing is changed.")]
PlanHash = Annotated[str | None, option("--plan-hash", "Run only if the plan made now has this hash.", "HASH")]


def begin_workflow(
    connection: Connection,
    verb: str,
    workflow: str,
    data: Document,
    sending: Staying,
    *,
    plan_only: bool,
    plan_hash: str | None,
    show_plan: Callable[[Document], None] | None = None,
) -> int:
    """Send it, hear its answer, and show its plan; with `--wait`, and of a dry run, stay until it is over. `show_plan`
    shows the plan of a dry run in a form of its own.
    """
    data = data if plan_hash is None else data | {"plan_hash": plan_hash}
    record = sending.make(connection, verb, workflow, data | ({"dry_run": True} if plan_only else {}))
    if record is None:
        return ExitCode.DONE
    born_of = begin(connection, record, sending.timeout_s)
    if plan_only or sending.wait:
        document = sending.stay(connection, workflow, is_settled, born_of)
        if show_plan is not None and document["state"] == State.PLANNED:
            show_plan(document)
        else:
            show_recovery(document, sending.output, with_plan=True)
        say_how_to_approve(document)
        return exit_code_of_state(document)
    document = quiet_status(connection, workflow, born_of)
    show_recovery(document, sending.output, with_plan=True)
    return ExitCode.AWAITING_APPROVAL if say_how_to_approve(document) else ExitCode.DONE


def steer_workflow(connection: Connection, verb: str, workflow: str, data: Document, sending: Staying) -> ExitCode:
    """A command to one that lives. With `--wait` it stays until the workflow ended, and ends with the exit code of
    that.
    """
    record = sending.make(connection, verb, workflow, data)
    if record is None:
        return ExitCode.DONE
    send(connection, record, sending.timeout_s)
    if not sending.wait:
        show_recovery(quiet_status(connection, workflow, ""), sending.output)
        return ExitCode.DONE
    document = sending.stay(connection, workflow, is_settled)
    show_recovery(document, sending.output)
    return exit_code_of_state(document)


def roll_back(connection: Connection, workflow: str, reason: str | None, sending: Staying) -> ExitCode:
    """Let it put back what it changed. With `--wait` it stays until that is over, also where somebody stops it."""
    record = sending.make(connection, "rollback", workflow, {"reason": reason})
    if record is None:
        return ExitCode.DONE
    before = connection.backend.status(workflow)
    is_new = bool(begin(connection, record, sending.timeout_s))
    least = before["version"] + 1 if before is not None and is_new else 0

    def has_begun(seen: Document) -> bool:
        """Records from before the command tell of the state in which it ended then."""
        return bool(seen["version"] >= least)

    if not sending.wait:
        show_recovery(quiet_status(connection, workflow, "", has_begun), sending.output)
        return ExitCode.DONE
    document = sending.stay(connection, workflow, lambda seen: has_begun(seen) and has_ended(seen))
    show_recovery(document, sending.output)
    return ExitCode.DONE if document["state"] == "rolled_back" else ExitCode.FAILED
