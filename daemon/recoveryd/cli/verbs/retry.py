"""`recoveryctl retry`: a new recovery for what a failed or stopped one did not get done."""

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Annotated

import typer

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import Yes, id_option, option
from recoveryd.cli.render.output import note
from recoveryd.cli.send.again import begun_by, elsewhere, rest_of
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.once import is_plan_only, left_by, refuse_continued, refuse_twice, retry_id
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.replay import PlanOnly, start
from recoveryd.kernel.catalogue import Code

Target = Annotated[
    str | None, option("--target", "Begin from the start, into this new topic of the target's cluster.", "TOPIC")
]
PlanHash = Annotated[str | None, option("--plan-hash", "Run only if the plan made now has this hash.", "HASH")]
RetryId = Annotated[
    str | None, id_option("Id of the new recovery; when left out, one made so that the same is not tried twice.")
]

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
    made, look_again = "", None
    if verb == "replay" and target is None:
        others = connection.backend.statuses()
        document = left_by(document, others)
        verb, data = begun_by(document)
        own = new_id, sending.command_id
        _refuse(document, others, own)
        made = retry_id(document, others)
        look_again = partial(_look_again, connection, document, own)
        data, said = rest_of(document, data)
        note(said)
    elif verb == "replay":
        data = elsewhere(data, str(target))
        note("It begins from its start.")
    elif target is not None:
        data = {**data, "target": {**data["target"], "topic": target}}
    before = (document.get("command") or {}).get("reason") or ""
    data["reason"] = reason or f"retry of {document['recovery']}: {before}"[:500]
    if plan_hash is not None:
        data["plan_hash"] = plan_hash
    chosen = new_id or made or make_id(str(data["source"]["topic"]))
    again = document["recovery"]  # whose state no dry run changes
    words = ["recoveryctl", "retry", again, "--id", chosen, *(["--target", target] if target else [])]
    try:
        return start(
            connection,
            verb,
            chosen,
            data,
            sending,
            shlex.join(words),
            plan_only=plan_only,
            yes=yes,
            look_again=look_again,
        )
    except Failure as refused:
        if refused.code is Code.ID_IN_USE and chosen == made:
            raise _tried_already(again, chosen, refused, connection.backend.status(chosen)) from None
        raise


def _look_again(connection: Connection, document: Document, own: tuple[str | None, str | None]) -> None:
    """Raises `Failure` where somebody else has tried it again under an id that he chose, while a plan was read."""
    _refuse(document, connection.backend.statuses(), own)


def _refuse(document: Document, others: Mapping[str, Document], own: tuple[str | None, str | None]) -> None:
    refuse_continued(document, others)
    refuse_twice(document, others, own)


def _tried_already(recovery: str, chosen: str, refused: Failure, holder: Document | None) -> Failure:
    """The daemon's refusal of a second retry has as next step to choose another id, with which it would run twice.
    `holder`: what has the id now.
    """
    if holder is not None and is_plan_only(holder):
        message = (
            f"A plan of what {recovery} left is being made, by somebody else or by an earlier call: {refused.message}."
        )
        hint = f"Nothing is begun. Send it again in a moment, without another id: `recoveryctl retry {recovery}`."
    else:
        message = f"{recovery} is tried again already, by somebody else or by an earlier call: {refused.message}."
        hint = f"Look at that one: `recoveryctl describe {chosen}`."
    return Failure(Code.ID_IN_USE, message, hint, otherwise=ExitCode.REJECTED)
