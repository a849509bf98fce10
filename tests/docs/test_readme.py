"""The README is short, what it shows was really printed, and its config can be loaded."""

import re
from pathlib import Path

from recoveryd.settings import load
from tools.film import CAST, SVG, draw, recorded

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PRINTED = {shown.text for shown in recorded(ROOT / CAST)}


def test_it_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 130


def test_what_it_says_was_printed_was_printed() -> None:
    block = README[README.index("What it printed") :].split("\n\n")[1]
    lines = [line.removeprefix("    ") for line in block.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if line not in PRINTED | {"..."}] == []


def test_its_film_is_of_a_demo_that_kept_its_promises() -> None:
    assert [line for line in PRINTED if line.startswith(("broken", "Not as promised"))] == []
    assert len([line for line in PRINTED if line.startswith("holds: ")]) == 7


def test_its_film_needs_nothing_from_elsewhere_and_is_small() -> None:
    film = (ROOT / SVG).read_text(encoding="utf-8")
    assert film == draw(recorded(ROOT / CAST))
    assert len(film.encode()) < 100_000
    assert re.findall(r"<script|@import|@font-face|href=|url\(", film) == []
    assert "prefers-reduced-motion" in film


def test_its_example_of_a_config_can_be_loaded(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "recoveryd.yaml"
    file.write_text(f"clusters: {{main: {{bootstrap.servers: 'a:1'}}}}\n{example}", encoding="utf-8")
    assert [topic.group for topic in load(file).values.monitor.topics] == ["order-service"]
