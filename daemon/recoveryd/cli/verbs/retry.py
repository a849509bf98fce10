"""`recoveryctl retry`: a new recovery for what a failed or stopped one did not get done."""

import shlex
from typing import Annotated

import typer

from recoveryd.cli.failure import Failure
from recoveryd.cli.options import Yes, id_option, option
from recoveryd.cli.render.output import note
from recoveryd.cli.send.again import begun_by, elsewhere, refuse_continued, refuse_twice, rest_of
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.verbs.replay import PlanOnly, start
from recoveryd.kernel.catalogue import Code

Target = Annotated[
    str | None, option("--target", "Begin from the start, into this new topic of the target's cluster.", "TOPIC")
]
PlanHash = Annotated[str | None, option("--plan-hash", "Run only if the plan made now has this hash.", "HASH")]
RetryId = Annotated[str | None, id_option("Id of the new recovery; made from the source topic when left out.")]

RetryReason = Annotated[
    str | None, option("--reason", "Why, for the record; says what is retried, and its reason, when left out.", "TEXT")
]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(retry)


@connected
def retry(
    connection: Connection,
    recovery: Id,
    target: Target = None,
    new_id: RetryId = None,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    reason: RetryReason = None,
    yes: Yes = False,
    *,
    sending: Staying,
) -> int:
    """Begin a failed or stopped replay or verification again. A replay goes on where it stopped, under a new id, where
    that is exact; else it is refused, and --target begins it from its start in another topic. A deadline is not taken
    over; of max_records and max_bytes, what is left.
    """
    document = connection.backend.status(recovery)
    if document is None:
        raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
    verb, data = begun_by(document)
    if verb == "replay":
        if target is None:
            others = connection.backend.statuses()
            refuse_continued(document, others)
            refuse_twice(document, others)
        data, said = (
            rest_of(document, data) if target is None else (elsewhere(data, target), "It begins from its start.")
        )
        note(said)
    elif target is not None:
        data = {**data, "target": {**data["target"], "topic": target}}
    before = (document.get("command") or {}).get("reason") or ""
    data["reason"] = reason or f"retry of {recovery}: {before}"[:500]
    if plan_hash is not None:
        data["plan_hash"] = plan_hash
    chosen = new_id or make_id(str(data["source"]["topic"]))
    words = ["recoveryctl", "retry", recovery, "--id", chosen, *(["--target", target] if target else [])]
    return start(connection, verb, chosen, data, sending, shlex.join(words), plan_only=plan_only, yes=yes)
