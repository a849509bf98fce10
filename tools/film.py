"""The film at the head of README: a recording of `make demo`, drawn as one SVG that moves by CSS alone.

`python -m tools.film` runs the demo and writes docs/img/demo.cast, which is in the format of asciinema; the picture is
made from that (`tools.generate`). No scripts, no fonts from elsewhere. Waiting is shortened; the text is what was
printed.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CAST, SVG = Path("docs/img/demo.cast"), Path("docs/img/demo.svg")
_COLUMNS, _ROWS = 112, 25
_CHAR, _LINE, _MARGIN, _SIZE = 7.0, 17, 14, 11.6
_PAUSE_MOST_S, _PAUSE_LEAST_S, _SPEED, _HOLD_S = 1.3, 0.12, 3.0, 5.0
_LOOKS: Final[Sequence[tuple[str, str]]] = (
    (r"^\$ ", "p"),
    (r"^\d  ", "t"),
    (r"^(holds|completed)|by an independent reader: match", "g"),
    (r"^broken|^Not as promised", "r"),
    (r"^(the replay gives way|and comes back|a burst)", "y"),
    (r'^ +[{"]', "d"),
)
_STYLE = """
text{font:_SIZEpx ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;fill:#d0d7de;white-space:pre}
.t{fill:#56d4dd;font-weight:bold}.g{fill:#56d364}.r{fill:#ff7b72}.y{fill:#e3b341;font-weight:bold}.d{fill:#8b949e}
.p{fill:#fff;font-weight:bold}
"""


class Shown(NamedTuple):
    """A line of the film, and when it comes."""

    at_s: float
    text: str


def main() -> int:
    """The exit code of the demo."""
    began_s = time.time()
    command = [sys.executable, "-m", "recoveryd_sandbox.demo"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    events = [json.dumps({"version": 2, "width": _COLUMNS, "height": _ROWS, "command": "make demo"})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            print(line, end="", flush=True)
            events.append(
                json.dumps([round(time.time() - began_s, 2), "o", line.rstrip("\n") + "\r\n"], ensure_ascii=False)
            )
    if demo.returncode == 0:
        CAST.write_text("\n".join(events) + "\n", encoding="utf-8")
        for path, text in make_files().items():
            path.write_text(text, encoding="utf-8")
    return demo.returncode


def make_files() -> Mapping[Path, str]:
    return {SVG: draw(recorded())}


def recorded(cast: Path = CAST) -> list[Shown]:
    """What was printed, and when."""
    events = [json.loads(line) for line in (ROOT / cast).read_text(encoding="utf-8").splitlines()[1:]]
    return [Shown(at_s, text.rstrip("\r\n")) for at_s, kind, text in events if kind == "o"]


def draw(lines: Sequence[Shown]) -> str:
    """Each line comes in from below, in one animation that goes on for ever."""
    film = list(_timed(lines))
    whole_s = film[-1].at_s + _HOLD_S
    width, height = int(_COLUMNS * _CHAR) + 2 * _MARGIN, _ROWS * _LINE + 2 * _MARGIN
    steps = "".join(f"{100 * shown.at_s / whole_s:.2f}%{{{_at(number)}}}" for number, shown in enumerate(film))
    last = _at(len(film) - 1)
    texts = "".join(_text(number, shown.text) for number, shown in enumerate(film))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="A recording of make demo">\n'
        f"<style>{_STYLE.replace('_SIZE', str(_SIZE))}"
        f".f{{animation:f {whole_s:.1f}s step-end infinite}}@keyframes f{{{steps}100%{{{last}}}}}\n"
        f"@media (prefers-reduced-motion:reduce){{.f{{animation:none;{last}}}}}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        f'<svg x="{_MARGIN}" y="{_MARGIN}" width="{width - 2 * _MARGIN}" height="{_ROWS * _LINE}"><g class="f">\n'
        f"{texts}</g></svg>\n</svg>\n"
    )


def _timed(lines: Sequence[Shown]) -> Iterator[Shown]:
    """The command first; faster than it was, and no pause longer than a reader needs."""
    yield Shown(0.0, "$ make demo")
    at_s, before_s = 0.6, lines[0].at_s
    for line in lines:
        if line.text.startswith("Stopping everything"):
            return
        at_s += min(_PAUSE_MOST_S, max(_PAUSE_LEAST_S, (line.at_s - before_s) / _SPEED))
        before_s = line.at_s
        yield Shown(at_s, line.text)


def _at(number: int) -> str:
    return f"transform:translateY({(_ROWS - 1 - number) * _LINE}px)"


def _text(number: int, text: str) -> str:
    shown = text if len(text) <= _COLUMNS else f"{text[: _COLUMNS - 2]} …"
    if not shown.strip():
        return ""
    look = next((f' class="{name}"' for pattern, name in _LOOKS if re.search(pattern, shown)), "")
    length = f' textLength="{len(shown) * _CHAR:.0f}"' if shown[0] in "│┏┡└┃" else ""
    return f'<text y="{number * _LINE + 12}"{look}{length}>{escape(shown, quote=False)}</text>\n'


if __name__ == "__main__":
    raise SystemExit(main())
