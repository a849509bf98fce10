"""Shows the rows: a table for people at a terminal, the same as Markdown for docs/performance.md."""

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

from bench.result import FAIL, PASS, Report, Row, Sample

_COLUMNS = ("measurement", "median", "range", "compared with", "", "ratio", "target", "")
_WIDTH = 170
_SECTION = "\n\n## "
_PREFACE = (
    "Measured by `make bench ARGS=--write-docs`, which writes this page. Each number is a median, with its range "
    "over the repetitions, next to what it is "
    "compared with in the same run on the same machine. Broker, clients, Spark and daemon share the cores, so ratios "
    "travel to other machines better than "
    "seconds do. Other work ran on the machine at the same time, as the load says: the ratio of two numbers of one "
    "table is what counts."
)


def show(report: Report) -> None:
    """Print one table on stdout, at its full width when stdout is not a terminal."""
    console = Console(highlight=False) if Console().is_terminal else Console(highlight=False, width=_WIDTH)
    table = Table(title=report.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(_COLUMNS):
        table.add_column(name, justify="right" if number in {1, 2, 4, 5} else "left", no_wrap=number != 0)
    for row in report.rows:
        style = {PASS: "green", FAIL: "bold red"}.get(row.mark, "")
        table.add_row(*_cells(row), style=style or None)
    console.print(table)
    for note in report.notes:
        console.print(f"  {note}", style="dim")


def page(before: str, reports: Iterable[Report], machine: str, load: str) -> str:
    """The page of numbers: the sections of `before`, with each of these reports in place of the one of the same title,
    or after the last.
    """
    parts = before.split(_SECTION)[1:]
    sections = {part.splitlines()[0]: part.rstrip("\n") for part in parts}
    sections |= {report.title: _section(report, load) for report in reports}
    head = f"# Performance\n\nMachine: {machine}.\n\n{_PREFACE}"
    return _SECTION.join([head, *sections.values()]) + "\n"


def _section(report: Report, load: str) -> str:
    text = io.StringIO()
    text.write(f"{report.title}\n\n")
    text.write("| measurement | median | range | compared with | | ratio | target | |\n")
    text.write("| --- | ---: | ---: | --- | ---: | ---: | --- | --- |\n")
    for row in report.rows:
        text.write("| " + " | ".join(_cells(row)) + " |\n")
    text.write("\n" + "\n".join(f"- {note}" for note in (*report.notes, f"{load}, when it began")))
    return text.getvalue()


def _cells(row: Row) -> tuple[str, ...]:
    compared = "" if row.compared is None else _number(row.compared.median, row.compared.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    middle = _number(row.measured.median, row.measured.unit)
    return row.what, middle, _range(row.measured), row.versus, compared, ratio, row.target, row.mark


def _range(sample: Sample) -> str:
    return "" if len(sample.values) < 2 else f"{_plain(sample.low)} .. {_plain(sample.high)}"


def _number(value: float, unit: str) -> str:
    return f"{_plain(value)} {unit}"


def _plain(value: float) -> str:
    """Three significant digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
