"""`hold` and `release`: keep everybody from writing to topics, or resetting groups there, for a reason."""

from typing import Annotated

import typer

from recoveryd.cli.failure import ExitCode, usage
from recoveryd.cli.options import Reason, argument, id_option, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.render.showing import show_recovery
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import Sending, begin, quiet_status, send
from recoveryd.cli.status import Document

Topics = Annotated[list[str], argument("TOPIC...", "Topics to hold.")]
Released = Annotated[list[str] | None, argument("[TOPIC...]", "Topics to let go; with --id, all of that hold if none.")]
Reads = Annotated[
    bool, option("--reads", "Nothing may be copied from there either: the topics are being corrected themselves.")
]
Ttl = Annotated[
    str | None, option("--ttl", "Released by itself then: a duration like 2h, or a time with zone.", "TIME")
]
NewId = Annotated[str | None, id_option("Id of the hold; made from the first topic when left out.")]
OldId = Annotated[str | None, id_option("The hold meant, whoever placed it; else those that you placed.")]
Cluster = Annotated[str, option("--cluster", "A cluster of the daemon's config.", "NAME", shows_default=True)]
ClusterOfTopics = Annotated[
    str | None, option("--cluster", "A cluster of the daemon's config; main when left out, none with --id.", "NAME")
]


def add_to(app: typer.Typer) -> None:
    for verb in (hold, release):
        app.command(rich_help_panel="Steer")(verb)


@connected
def hold(
    connection: Connection,
    topics: Topics,
    reads: Reads = False,
    ttl: Ttl = None,
    cluster: Cluster = "main",
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Sending,
) -> int:
    """Keep recoveries from writing to these topics, and resets off them, until released; running recoveries pause."""
    data: Document = {"reason": reason, "cluster": cluster, "topics": topics}
    data |= {"reads": True} if reads else {}
    data |= {"ttl": ttl} if ttl is not None else {}
    name = new_id or make_id(f"{topics[0]}-hold")
    record = sending.make(connection, "hold", name, data)
    if record is None:
        return ExitCode.DONE
    born_of = begin(connection, record, sending.timeout_s)
    show_recovery(quiet_status(connection, name, born_of), sending.output)
    note(f"Let go with `recoveryctl release --id {name} --reason TEXT`; `recoveryctl describe {name}` shows who obeys.")
    return ExitCode.DONE


@connected
def release(
    connection: Connection,
    topics: Released = None,
    hold_id: OldId = None,
    cluster: ClusterOfTopics = None,
    reason: Reason = None,
    *,
    sending: Sending,
) -> int:
    """End the hold on topics; recoveries that it had paused go on by themselves."""
    if not topics and hold_id is None:
        raise usage("There is nothing to release.", "Name topics, or a hold with --id.")
    if hold_id is not None and cluster is not None:
        raise usage("--cluster says where topics are, and the hold of --id has its own.", "Leave one of them out.")
    data: Document = {"reason": reason}
    data |= {"cluster": cluster or "main"} if hold_id is None else {}
    data |= {"topics": topics} if topics else {}
    name = hold_id or make_id(f"{(topics or [''])[0]}-release")
    record = sending.make(connection, "release", name, data)
    if record is None:
        return ExitCode.DONE
    show(send(connection, record, sending.timeout_s), sending.output, list, [hold_id or name])
    return ExitCode.DONE
