"""Tables of the generated pages."""

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without a newline at its end; bars and line breaks inside cells are escaped."""
    lines = [headers, ["---"] * len(headers), *([cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
