"""Printing recoveries to stdout in any form: the one place that decides what of a status record users see.

`internal` holds what only the daemon needs; it is no part of the contract and is left out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.options import Format
from recoveryd.cli.render.output import note, show
from recoveryd.cli.status import Document
from recoveryd.kernel.states import State


def public(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "internal"}


def show_recoveries(documents: Sequence[Document], output: Format) -> None:
    """A list, in the order given."""
    names = [document["recovery"] for document in documents]
    show([public(document) for document in documents], output, lambda: _rows(documents, output), names)


def show_recovery(document: Document, output: Format, *, with_plan: bool = False, with_result: bool = False) -> None:
    """One recovery; as a table it is one row, with the plan instead or the proof below when asked for."""

    def table() -> "list[RenderableType]":
        from recoveryd.cli.render.proof import result_parts  # noqa: PLC0415
        from recoveryd.cli.render.recoveries import plan_parts  # noqa: PLC0415

        if with_plan and document.get("workflow") and document.get("plan"):
            from recoveryd.cli.render.workflows import workflow_plan_parts  # noqa: PLC0415

            return [*_rows([document], output), *workflow_plan_parts(document["plan"])]
        if with_plan and document.get("plan"):
            return [*(_rows([document], output) if document.get("workflow") else ()), *plan_parts(document)]
        return [*_rows([document], output), *(result_parts(document) if with_result else [])]

    show(public(document), output, table, [document["recovery"]])


def show_all(document: Document, events: Sequence[Document], output: Format) -> None:
    """One recovery with everything there is."""

    def table() -> "list[RenderableType]":
        from recoveryd.cli.render.recoveries import describe  # noqa: PLC0415

        return describe(document, events)

    show({**public(document), "events": list(events)}, output, table, [document["recovery"]])


def say_how_to_approve(document: Document) -> bool:
    """Whether it waits for approval; if so, the command for that is said beside it."""
    if document["state"] != State.AWAITING_APPROVAL:
        return False
    recovery, plan_hash = document["recovery"], document["plan"]["hash"]
    note(f'It waits for approval: recoveryctl approve {recovery} --plan-hash {plan_hash} --reason "..."')
    return True


def _rows(documents: Sequence[Document], output: Format) -> "list[RenderableType]":
    from recoveryd.cli.render.recoveries import recoveries_table  # noqa: PLC0415

    return [recoveries_table(documents, is_wide=output == Format.WIDE)]
