"""`recoveryctl replay` and `verify`: ask for a new recovery, look at its plan first, or only print the record.

The flags are rows of `recoveryd.cli.verbs.flags`; this module holds the order of things: build, check, ask, send, hear
the answer, stay if wanted.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Yes, id_option, option
from recoveryd.cli.render.output import confirm, note, stderr_console
from recoveryd.cli.render.showing import say_how_to_approve, show_recovery
from recoveryd.cli.send.backend import OutgoingRecord
from recoveryd.cli.send.command import is_begun_by, make_id, make_record
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import ANSWER_TIMEOUT_S, Staying, begin, quiet_status
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.cli.status import Document, has_ended, is_settled, told_why
from recoveryd.cli.verbs.flag_table import FlagTable, Values, value_at
from recoveryd.cli.verbs.flags import REPLAY, VERIFY
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State

File = Annotated[
    Path | None,
    option("-f --file", "YAML or JSON of the record's data; flags win over it. `-` reads stdin.", "FILE", "What"),
]
NewId = Annotated[str | None, id_option("Recovery id; made from the source topic when left out.", "What")]
PlanOnly = Annotated[bool, option("--plan-only", "Make and show the plan; run nothing.", panel="Sending")]


def add_to(app: typer.Typer) -> None:
    for verb in (
        make_verb(REPLAY, "Copy a range of a topic to another topic, exactly once and with proof."),
        make_verb(
            VERIFY, "Prove that a topic is a copy of another one, whoever copied it; reads both, writes nothing."
        ),
    ):
        app.command(rich_help_panel="Start")(verb)


def make_verb(table: FlagTable, summary: str) -> Callable[..., int | None]:
    """The verb of these flags, with the options that all verbs of this kind share."""

    def verb(
        connection: Connection,
        flags: Values,
        file: File = None,
        new_id: NewId = None,
        plan_only: PlanOnly = False,
        yes: Yes = False,
        *,
        sending: Staying,
    ) -> int:
        data = table.overlay(_read(file), flags)
        if file is None:
            table.require(data)  # of a file the codec judges better: what seems to be missing may be misspelt
        if table is VERIFY and file is None:  # nothing is changed by it, so nobody has to say why
            data.setdefault(
                "reason", f"is {value_at(data, ('target', 'topic'))} a copy of {value_at(data, ('source', 'topic'))}?"
            )
        recovery = new_id or make_id(str(value_at(data, ("source", "topic"))))
        same, reads_stdin = _next_command(table, file, recovery, flags), str(file) == "-"
        return start(
            connection, table.verb, recovery, data, sending, same, plan_only=plan_only, yes=yes, reads_stdin=reads_stdin
        )

    verb.__name__, verb.__doc__ = table.verb, summary
    return connected(table.on(verb))


def start(
    connection: Connection,
    verb: str,
    recovery: str,
    data: Document,
    sending: Staying,
    same_again: str,
    *,
    plan_only: bool,
    yes: bool,
    reads_stdin: bool = False,
    look_again: Callable[[], None] | None = None,
) -> int:
    """Check it, show its plan and ask, send it, hear the answer, and stay if wanted. `same_again` is the command line
    that runs what was planned only, but for where recoveryd is; `reads_stdin` says that it needs its document again.
    `look_again` is called after a yes, which may come late, and raises `Failure` where it may not be begun any more.
    """
    plan_only = plan_only or data.get("dry_run") is True
    if plan_only:
        data = {**data, "dry_run": True}
    record = sending.make(connection, verb, recovery, data)
    if record is None:
        return ExitCode.DONE
    if plan_only:
        return _plan(connection, record, sending, same_again, reads_stdin=reads_stdin)
    if not yes:
        if not _is_wanted(connection, verb, recovery, data, sending):
            return ExitCode.REJECTED
        if look_again is not None:
            look_again()
    return (_stay if sending.wait else _leave)(connection, record, sending)


def _plan(
    connection: Connection, record: OutgoingRecord, sending: Staying, next_command: str, *, reads_stdin: bool
) -> int:
    """Send the dry run, show what it found."""
    born_of = begin(connection, record, sending.timeout_s)
    limit_s = ANSWER_TIMEOUT_S if sending.timeout_s is None else sending.timeout_s
    document = quiet_status(connection, record.key, born_of, has_ended, limit_s)
    show_recovery(document, sending.output, with_plan=True)
    if document.get("plan"):
        words = (next_command, shlex.join(connection.typed), f"--plan-hash {document['plan']['hash']}")
        line = " ".join(filter(None, words))
        how, source = (" the same document", " < DOCUMENT") if reads_stdin else ("", "")
        note(f"Nothing was started. Run exactly this plan with{how}:\n  {line}{source}")
    return exit_code_of_state(document)


def _stay(connection: Connection, record: OutgoingRecord, sending: Staying) -> int:
    """Show progress on stderr until it ended or waits for a person; the result goes to stdout."""
    born_of = begin(connection, record, sending.timeout_s)
    document = sending.stay(connection, record.key, is_settled, born_of)
    show_recovery(document, sending.output, with_result=True)
    say_how_to_approve(document)
    return exit_code_of_state(document)


def _leave(connection: Connection, record: OutgoingRecord, sending: Staying) -> int:
    """Accepted: show it as it is now, and say how to see more."""
    born_of = begin(connection, record, sending.timeout_s)
    document = quiet_status(connection, record.key, born_of)
    show_recovery(document, sending.output)
    note(f"Watch it with `recoveryctl watch {record.key}`.")
    return ExitCode.AWAITING_APPROVAL if say_how_to_approve(document) else ExitCode.DONE


def _is_wanted(connection: Connection, verb: str, recovery: str, data: Document, sending: Staying) -> bool:
    """Lets the daemon plan it first, shows that plan on stderr and goes on only after a yes. False when there is no
    plan to ask about, which is shown instead. The very command that began it already is sent again unasked.
    """
    if not connection.tools.is_interactive():
        raise usage("There is no terminal to ask on.", "Give --yes to send it, or look first with --plan-only.")
    from recoveryd.cli.render.recoveries import plan_parts  # noqa: PLC0415

    dry_run = make_record(verb, recovery, {**data, "dry_run": True}, connection.names)
    try:
        born_of = begin(connection, dry_run, sending.timeout_s)
    except Failure as refused:
        if refused.code is Code.ID_IN_USE and is_begun_by(connection.backend.status(recovery), sending.command_id):
            return True  # it was sent before, after a yes
        raise
    limit_s = ANSWER_TIMEOUT_S if sending.timeout_s is None else sending.timeout_s
    document = quiet_status(connection, recovery, born_of, has_ended, limit_s)
    if document["state"] != State.PLANNED or not document.get("plan"):
        note(f"{recovery} has no plan: {told_why(document) or document['state']}")
        return False
    console = stderr_console(asks=True)
    for part in plan_parts(document):
        console.print(part)
    note(f"Ends that move are fixed when it starts; --plan-hash {document['plan']['hash']} runs this plan or none.")
    if not confirm(f"Start this {verb} as {recovery}?"):
        raise typer.Abort
    return True


def _read(file: Path | None) -> Document:
    """The document of `-f`."""
    if file is None:
        return {}
    from recoveryd.cli.send.documents import read_file  # noqa: PLC0415

    return read_file(file, "It holds the data of a replay record: source, target, reason.")


def _next_command(table: FlagTable, file: Path | None, recovery: str, flags: Values) -> str:
    words = [f"recoveryctl {table.verb}", f"--id {recovery}"]
    words += [f"-f {shlex.quote(str(file))}"] if file is not None else []
    typed = table.command_line({name: v for name, v in flags.items() if name != "plan-hash"})
    return " ".join([*words, typed]).strip()
