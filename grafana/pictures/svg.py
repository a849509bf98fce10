"""A few shapes as SVG text. Coordinates are pixels; texts are escaped here and nowhere else."""

from collections.abc import Sequence
from html import escape

from grafana.pictures.looks import INK

_WIDE, _MEAN, _NARROW = "MWmw@%", 6.9, "iljtf.,:' "


def text(
    x: float, y: float, said: str, *, size: int = 11, color: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
        f'text-anchor="{anchor}"{weight}>{escape(said)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def rect(x: float, y: float, width: float, height: float, color: str, *, opacity: float = 1.0, title: str = "") -> str:
    more = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}" '
        f'fill="{color}" fill-opacity="{opacity:g}">{more}</rect>'
    )


def polyline(points: Sequence[tuple[float, float]], color: str, *, width: float = 1.5, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{_joined(points)}" fill="none" stroke="{color}" stroke-width="{width}" '
        f'stroke-linejoin="round"{dashes}/>'
    )


def polygon(points: Sequence[tuple[float, float]], color: str, opacity: float) -> str:
    return f'<polygon points="{_joined(points)}" fill="{color}" fill-opacity="{opacity:g}"/>'


def document(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}">{"".join(parts)}</svg>'
    )


def width_of(said: str, size: int = 11) -> float:
    """Approximate width of a text in pixels."""
    each = sum(1.5 if c in _WIDE else 0.55 if c in _NARROW else 1.0 for c in said)
    return each * _MEAN * size / 11


def cut(said: str, room: float, size: int = 11) -> str:
    """As much of the text as fits into `room`."""
    if width_of(said, size) <= room:
        return said
    kept = said
    while kept and width_of(kept + "…", size) > room:
        kept = kept[:-1]
    return kept + "…" if kept else ""


def legend(x: float, y: float, room: float, entries: Sequence[tuple[str, str, str]]) -> list[str]:
    """Names (name, colour, dash) one after the other on one line; those that do not fit are counted."""
    parts: list[str] = []
    at = x
    for number, (name, color, dash) in enumerate(entries):
        wide = width_of(name, 10) + 26
        if at + wide > x + room and number:
            parts.append(text(at, y, f"+{len(entries) - number} more", size=10))
            break
        parts += [
            line(at, y - 4, at + 14, y - 4, color, width=3, dash=dash),
            text(at + 18, y, cut(name, room - 30, 10), size=10),
        ]
        at += wide + 6
    return parts


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
