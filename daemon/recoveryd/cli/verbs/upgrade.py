"""`recoveryctl upgrade`: a newer version of an application takes over from the older one."""

from typing import Annotated

import typer

from recoveryd.cli.options import Reason, option
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import NewId, PlanHash, PlanOnly, begin_workflow


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(upgrade)


@connected
def upgrade(
    connection: Connection,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="The old version, a unit of the daemon's config.")],
    to_unit: Annotated[str, option("--to-unit", "The new version: a unit with the same group.", "UNIT")],
    on_incompatible: Annotated[
        str | None,
        option("--on-incompatible", "`continue`: also where the new version does not find the state.", "fail|continue"),
    ] = None,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Let a new version of an application go on exactly where the old one stops."""
    data: Document = {"reason": reason, "unit": unit, "to_unit": to_unit}
    data |= {"on_incompatible": on_incompatible} if on_incompatible else {}
    return begin_workflow(
        connection, "upgrade", new_id or make_id(to_unit), data, sending, plan_only=plan_only, plan_hash=plan_hash
    )
