"""Sending the commands that steer what exists, to one or to several, and what came of them.

Which verb means what is `recoveryd.cli.verbs.steer` and `judge`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import Format
from recoveryd.cli.render.output import note, show
from recoveryd.cli.render.showing import public, show_recovery
from recoveryd.cli.send.command import print_record, shown_record
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.sending import Sending, Staying, send
from recoveryd.cli.send.sending_all import send_all
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.cli.status import Document, has_ended

Reached = Callable[[Document], bool]
# Shows one of several: what stands for it in JSON, and how it is shown where each stands for itself.
Tell = Callable[[Document, Callable[[], None]], None]


def steer_one(
    connection: Connection,
    verb: str,
    recovery: str,
    data: Mapping[str, object],
    sending: Sending,
    is_reached: Reached = has_ended,
) -> int:
    """Send, hear, and stay until `is_reached` (or the end) when wanted. The answer is the result where nothing is
    waited for.
    """
    record = sending.make(connection, verb, recovery, data)
    if record is None:
        return ExitCode.DONE
    answer = send(connection, record, sending.timeout_s)
    if not (isinstance(sending, Staying) and sending.wait):
        show(answer, sending.output, list, [recovery])
        return ExitCode.DONE
    document = _stay(connection, recovery, sending, is_reached)
    show_recovery(document, sending.output)
    return _outcome(verb, document, is_reached)


def steer_all(
    connection: Connection,
    verb: str,
    meant: Mapping[str, Document],
    sending: Sending,
    is_reached: Reached,
) -> int:
    """`meant`: the data by id. All are sent before one answer is awaited, and answered before an end is waited for."""
    records = [sending.record(connection, verb, recovery, data) for recovery, data in meant.items()]
    with _one_list(sending.output) as tell:
        if sending.print_only:
            for record in records:
                shown = shown_record(record, connection.brokers)
                tell(shown, partial(print_record, record, sending.output, connection.brokers))
            return ExitCode.DONE
        waits = isinstance(sending, Staying) and sending.wait

        def on_accepted(recovery: str, answer: Document) -> None:
            """The answers are the result where nothing is waited for."""
            if not waits:
                tell(answer, partial(show, answer, sending.output, list, [recovery]))

        outcome = send_all(connection, records, sending.timeout_s, on_accepted)
        if isinstance(sending, Staying) and sending.wait:
            for recovery in (record.key for record in records if record.key in outcome.accepted):
                document = _stay(connection, recovery, sending, is_reached)
                tell(public(document), partial(show_recovery, document, sending.output))
                outcome.codes.append(_outcome(verb, document, is_reached))
    return outcome.exit_code


@contextmanager
def _one_list(output: Format) -> Iterator[Tell]:
    """JSON and YAML of several are one list, also where one of them was the last that could be shown; in the other
    forms each stands for itself, as soon as it is there.
    """
    kept: list[Document] = []
    is_list = output in {Format.JSON, Format.YAML}

    def tell(document: Document, show_now: Callable[[], None]) -> None:
        if is_list:
            kept.append(document)
        else:
            show_now()

    try:
        yield tell
    finally:
        if is_list:
            show(kept, output, list)


def _stay(connection: Connection, recovery: str, sending: Staying, is_reached: Reached) -> Document:
    return sending.stay(connection, recovery, lambda seen: is_reached(seen) or has_ended(seen))


def _outcome(verb: str, document: Document, is_reached: Reached) -> int:
    if verb == "stop" and document["state"] == "stopped" and not document.get("error_code"):
        return ExitCode.DONE  # also of a verification, which has no verdict then: that was wanted
    if is_reached(document):
        return exit_code_of_state(document)
    note(f"{document['recovery']} ended as {document['state']} before {verb} could take effect.")
    return exit_code_of_state(document) or ExitCode.FAILED
