"""`recoveryctl reprocess`: an application begins again from a point, with empty state. `ack`: a person's word that a
step is done.
"""

from typing import Annotated, Any

import typer

from recoveryd.cli.failure import usage
from recoveryd.cli.options import Reason, option
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.send.values import require_text
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import NewId, PlanHash, PlanOnly, begin_workflow, steer_workflow
from recoveryd.cli.verbs.reset import parse_to

_FROM = "earliest, offset:N, a time with zone, -2h, or as --to of reset."
OUTPUTS = "TOPIC=POLICY for each output: recreate, keep (overwritten by key), append (beside old results) or new:TOPIC."


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(reprocess)
    app.command(rich_help_panel="Steer")(ack)


@connected
def reprocess(
    connection: Connection,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit of the daemon's config.")],
    start: Annotated[str, option("--from", _FROM, "POSITION", shows_default=True)] = "earliest",
    outputs: Annotated[list[str] | None, option("--outputs", OUTPUTS, "TOPIC=POLICY")] = None,
    intermediate: Annotated[
        list[str] | None, option("--intermediate", "TOPIC=seek_to_end or TOPIC=recreate.", "TOPIC=POLICY")
    ] = None,
    accept_missing: Annotated[
        int, option("--accept-missing", "Go on although inputs have lost up to this many records at their start.", "N")
    ] = 0,
    keep_inputs: Annotated[
        bool, option("--keep-inputs", "Let retention take nothing from the inputs until the workflow ended.")
    ] = False,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Let an application process its inputs again, from a point and with empty state, step by step."""
    data: Document = {
        "reason": reason,
        "unit": unit,
        "from": parse_to(start, "--from"),
        "outputs": parse_choices(outputs, "--outputs"),
    }
    data |= {"intermediate": parse_choices(intermediate, "--intermediate")} if intermediate else {}
    data |= {"accept_missing": accept_missing} if accept_missing else {}
    data |= {"keep_inputs": True} if keep_inputs else {}
    return begin_workflow(
        connection, "reprocess", new_id or make_id(unit), data, sending, plan_only=plan_only, plan_hash=plan_hash
    )


@connected
def ack(
    connection: Connection,
    workflow: Id,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step that waits, as `describe` names it.")],
    message: Annotated[str | None, option("--note", "What was done or found.", "TEXT")] = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Say that a step which waits for a person is done; --wait stays until the workflow ended."""
    require_text({"--note": message})
    data: Document = {"reason": reason, "step": step} | ({"note": message} if message else {})
    return steer_workflow(connection, "ack", workflow, data, sending)


def parse_choices(texts: list[str] | None, flag: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts or ():
        topic, is_pair, policy = text.partition("=")
        if not is_pair or not topic or not policy:
            raise usage(f"{text} is not TOPIC=POLICY.", f"Write {flag} TOPIC=POLICY, once for each topic.")
        if topic in found:
            raise usage(f"{flag} names {topic} twice.", "Say it once.")
        found[topic] = {"new": policy.removeprefix("new:")} if policy.startswith("new:") else policy
    return found
