"""`recoveryctl upgrade`: a newer version of an application takes over from the older one."""

from typing import Annotated

import typer

from recoveryd.cli.options import Reason, option
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.send.values import parse_duration_s, require_text
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import NewId, PlanHash, PlanOnly, begin_workflow


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(upgrade)


@connected
def upgrade(
    connection: Connection,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="The old version, a unit of the daemon's config.")],
    to_unit: Annotated[str, option("--to-unit", "The new version, a unit of the daemon's config.", "UNIT")],
    mode: Annotated[
        str | None, option("--mode", "`online`: the new version runs beside the old one first.", "offline|online")
    ] = None,
    staged_unit: Annotated[
        str | None, option("--staged-unit", "Online: the new version as it runs beside the old one.", "UNIT")
    ] = None,
    tail_unit: Annotated[
        str | None,
        option("--tail-unit", "Online: unit that runs the new version on the records between the two stops.", "UNIT"),
    ] = None,
    ready_lag: Annotated[
        str | None,
        option("--ready-lag", "Online: ready when it is at most this far behind; 10s when left out.", "DURATION"),
    ] = None,
    hold: Annotated[
        str | None,
        option("--hold", "Online: ready when its lag stayed that low for this long; 1m when left out.", "DURATION"),
    ] = None,
    cutover: Annotated[
        str | None,
        option(
            "--cutover",
            (
                "Online. exact: each input is processed once; at_least_once: inputs between the two stops come from "
                "both versions."
            ),
            "exact|at_least_once",
        ),
    ] = None,
    on_incompatible: Annotated[
        str | None,
        option(
            "--on-incompatible",
            "`continue`: go on even where the new version will not find its state.",
            "fail|continue",
        ),
    ] = None,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Let a new version of an application go on exactly where the old one stops."""
    require_text(
        {
            "--mode": mode,
            "--staged-unit": staged_unit,
            "--tail-unit": tail_unit,
            "--hold": hold,
            "--cutover": cutover,
            "--on-incompatible": on_incompatible,
        }
    )
    data: Document = {"reason": reason, "unit": unit, "to_unit": to_unit}
    given = {
        "mode": mode,
        "staged_unit": staged_unit,
        "tail_unit": tail_unit,
        "ready": _ready(ready_lag, hold),
        "cutover": cutover,
        "on_incompatible": on_incompatible,
    }
    data |= {name: value for name, value in given.items() if value}
    return begin_workflow(
        connection, "upgrade", new_id or make_id(to_unit), data, sending, plan_only=plan_only, plan_hash=plan_hash
    )


def _ready(lag: str | None, hold: str | None) -> Document:
    ready: Document = {} if hold is None else {"hold": hold}
    return ready if lag is None else ready | {"lag_seconds": parse_duration_s(lag, "--ready-lag")}
