"""How a recovery ended: why it stopped, the completeness equation, the verification.

The sums are made here from the rows and not taken from the record, so that a record that contradicts itself is seen.
"""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import columns
from recoveryd.cli.status import Document

_TERMS = ("offsets", "copied", "filtered", "skipped", "lost", "unexplained")


def result_parts(document: Document) -> list[RenderableType]:
    """How it ended: stop with its evidence, completeness, verification. Empty while nothing of it is known."""
    parts: list[RenderableType] = []
    if document.get("stop"):
        parts += ["", *_stop_parts(document["stop"])]
    if document.get("completeness"):
        rows = document["completeness"]
        parts += ["", Text("Completeness", style="bold"), completeness_table(rows), equation(rows), *_times(rows)]
    if document.get("verification"):
        parts += ["", *_verification_parts(document["verification"])]
    return parts


def completeness_table(rows: Sequence[Document]) -> Table:
    """Per partition and in total: each offset of the range is copied, filtered, skipped or lost."""
    table = columns(
        "PARTITION", ">FROM", ">TO", ">OFFSETS", ">COPIED", ">FILTERED", ">SKIPPED", ">LOST", ">UNEXPLAINED"
    )
    for row in rows:
        cells = [figures.count(row[name]) for name in ("from", "to", *_TERMS)]
        table.add_row(str(row["partition"]), *cells)
    table.add_section()
    table.add_row("total", "", "", *(figures.count(_total(rows, name)) for name in _TERMS), style="bold")
    return table


def equation(rows: Sequence[Document]) -> Text:
    """The completeness sentence, with a verdict computed here and not taken from the record."""
    offsets, *parts = (_total(rows, name) for name in _TERMS)
    terms = " + ".join(f"{figures.count(part)} {name}" for part, name in zip(parts, _TERMS[1:], strict=True))
    # Row by row: a surplus in one partition must not hide what another lacks.
    adds_up = all(row["offsets"] == sum(row[name] for name in _TERMS[1:]) == row["to"] - row["from"] for row in rows)
    verdict = "It adds up" if adds_up else "IT DOES NOT ADD UP"
    unexplained = parts[-1]
    ending = f", but {figures.count(unexplained)} offsets are unexplained." if unexplained else "."
    is_good = adds_up and not unexplained
    return Text(f"{figures.count(offsets)} offsets = {terms}. {verdict}{ending}", style="green" if is_good else "red")


def _times(rows: Sequence[Document]) -> list[RenderableType]:
    """How far the copied records reach in their own time; nothing of a record that does not know it."""
    known = [row for row in rows if row.get("max_time") is not None]
    if not known:
        return []
    first, last = min(row["min_time"] for row in known), max(row["max_time"] for row in known)
    behind = min(known, key=lambda row: str(row["max_time"]))
    told = f"Copied records are of {first} to {last}"
    return [
        Text(f"{told}; partition {behind['partition']} reached {behind['max_time']}." if len(known) > 1 else f"{told}.")
    ]


def _stop_parts(stop: Document) -> list[RenderableType]:
    """Why it stopped; the numbers the rule saw, single ones in the sentence and rows of them as a table."""
    evidence = stop.get("evidence") or {}
    rows = {name: value for name, value in evidence.items() if _is_rows(value)}
    single = ", ".join(_said(name, value) for name, value in evidence.items() if name not in rows and value is not None)
    mode = f" ({stop['mode']})" if stop.get("mode") else ""
    text = f"Stopped at {figures.clock_time(stop.get('at'))}: {stop.get('reason')}{mode}"
    parts: list[RenderableType] = [Text(f"{text}; {single}." if single else f"{text}.", style="bold")]
    for name, values in rows.items():
        table = columns(f"EVIDENCE: {name.upper()}", *(f">{key.upper()}" for key in values[0]))
        for value in values:
            table.add_row("", *(figures.count(v) if isinstance(v, int) else str(v) for v in value.values()))
        parts.append(table)
    return parts


def _said(name: str, value: object) -> str:
    """One number or word that the rule saw; a `message` is a sentence of its own."""
    if name == "message":
        return str(value).rstrip(".")
    is_count = isinstance(value, int) and not isinstance(value, bool) and not name.endswith("_ms")
    return f"{name} {figures.count(value) if is_count else value}"  # type: ignore[arg-type]


def _is_rows(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, dict) and v.keys() == value[0].keys() for v in value)
    )


def _verification_parts(verification: Document) -> list[RenderableType]:
    result = verification.get("result")
    if result == "skipped":
        return [Text(f"Verification: skipped{': ' if verification.get('why') else ''}{verification.get('why') or ''}.")]
    style = {"match": "green", "mismatch": "bold red"}.get(str(result), "")
    counts = (
        f"{figures.count(verification.get('source_records'))} source records, "
        f"{figures.count(verification.get('target_records'))} found in the target"
    )
    if verification.get("extra_records"):
        counts += f", {figures.count(verification['extra_records'])} of them extra"
    parts: list[RenderableType] = [Text(f"Verification: {result}. {counts}.", style=style)]
    if verification.get("scope"):
        parts.append(Text(_scope(verification)))
    if verification.get("why"):
        parts.append(Text(verification["why"]))
    if verification.get("digest"):
        parts.append(Text(f"digest {verification['digest']}"))
    if verification.get("differences"):
        table = columns("KIND", ">SOURCE", ">OFFSET", ">TARGET", ">OFFSET", ">RECORDS", "WHAT")
        for row in verification["differences"]:
            table.add_row(*(Text(figures.NONE if row.get(name) is None else str(row[name])) for name in _DIFFERENCE))
        parts.append(table)
    return parts


_DIFFERENCE = ("kind", "source_partition", "source_offset", "target_partition", "target_offset", "count", "message")


def _scope(verification: Document) -> str:
    """What the proof rests on, in one sentence."""
    held = figures.count(verification.get("records_by_receipts"))
    if verification["scope"] == "mixed" and not verification.get("records_by_receipts"):
        rest = "except for offsets that it lacks: receipts say that nothing of them was copied"
        return f"Proved by reading the source again, {rest}."
    return {
        "source": "Proved by reading the source again.",
        "mixed": (
            f"Proved by reading the source again, except for {held} records that it no longer holds: receipts "
            "prove these."
        ),
        "receipts": "Proved by receipts only; the source was not read again.",
    }.get(str(verification["scope"]), "")


def _total(rows: Sequence[Document], name: str) -> int:
    return sum(int(row[name]) for row in rows)
