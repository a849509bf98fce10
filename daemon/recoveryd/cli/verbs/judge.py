"""The verbs that judge a plan which waits for a person: approve, reject. By its own hash, one at a time."""

from collections.abc import Callable
from typing import Annotated

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Reason, Yes, option
from recoveryd.cli.render.output import confirm, stderr_console
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Sending, Staying
from recoveryd.cli.verbs.steering import steer_one
from recoveryd.kernel.catalogue import Code

PlanHash = Annotated[str | None, option("--plan-hash", "The plan meant; read from the status when left out.", "HASH")]


def add_to(app: typer.Typer) -> None:
    for verb in (
        _make_judging(
            "approve",
            "Let a recovery run that waits for approval, one plan at a time; --wait stays until it ended.",
            Staying,
        ),
        _make_judging("reject", "Refuse a recovery that waits for approval; it ends as rejected.", Sending),
    ):
        app.command(rich_help_panel="Steer")(verb)


def _make_judging(name: str, summary: str, kind: type[Sending]) -> Callable[..., int | None]:
    """The verb of a command that judges the plan that waits; `kind` is how it is sent."""

    def verb(
        connection: Connection,
        recovery: Id,
        plan_hash: PlanHash = None,
        reason: Reason = None,
        yes: Yes = False,
        *,
        sending: Sending,
    ) -> int:
        data = {"plan_hash": plan_hash or _hash_to_judge(connection, recovery, name, yes), "reason": reason}
        return steer_one(connection, name, recovery, data, sending)

    verb.__name__, verb.__doc__, verb.__annotations__["sending"] = name, summary, kind
    return connected(verb)


def _hash_to_judge(connection: Connection, recovery: str, verb: str, yes: bool) -> str:
    """The hash of the plan that waits now, after a person saw it (or said --yes)."""
    document = connection.backend.status(recovery)
    if document is None:
        raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
    plan = document.get("plan")
    if document["state"] != "awaiting_approval" or not plan:
        message = f"{recovery} is {document['state']} and does not wait for approval."
        raise Failure(Code.NOT_IN_THIS_STATE, message, otherwise=ExitCode.REJECTED)
    if not yes:
        if not connection.tools.is_interactive():
            raise usage("There is no terminal to ask on.", f"Give --plan-hash {plan['hash']} or --yes.")
        from recoveryd.cli.render.recoveries import plan_parts  # noqa: PLC0415

        console = stderr_console(asks=True)
        for part in plan_parts(document):
            console.print(part)
        if not confirm(f"{verb.capitalize()} this plan?"):
            raise typer.Abort
    return str(plan["hash"])
