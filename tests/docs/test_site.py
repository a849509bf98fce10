"""The site has each page, in its place, and a browser that shows it fetches nothing from elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.site import ROOT, fetched_from_elsewhere, known_files

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from pages_in(part)


def test_each_page_has_its_place_and_each_place_a_page() -> None:
    placed = list(pages_in(CONFIG["nav"]))
    written = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(placed) == len(set(placed))
    assert written - set(placed) == set()
    assert [page for page in placed if not (ROOT / page).is_file()] == []
    assert [list(part) for part in CONFIG["nav"]][1:] == [["Tutorials"], ["How to"], ["Reference"], ["Explanation"]]


def test_a_broken_link_is_an_error_and_nothing_is_fetched_from_elsewhere() -> None:
    assert CONFIG["strict"] is True
    assert CONFIG["theme"]["font"] is False
    assert {"extra_javascript", "extra_css"} & set(CONFIG) == set()


def test_what_is_staged_is_what_git_knows() -> None:
    staged = {path.as_posix() for path in known_files()}
    assert {"README.md", "docs/units.md", "config/recoveryd.yaml"} <= staged
    assert [path for path in staged if path.startswith(("build/", "tests/", ".venv/"))] == []


def test_what_a_page_would_fetch_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.org">x</a><img src="b.png"><script src="https://a.org/b.js">')
    assert [page for page, _ in fetched_from_elsewhere(tmp_path)] == ["a.html"]


@pytest.mark.parametrize(
    ("name", "text", "is_found"),
    [
        ("a.css", "@import '//a.org/b.css';", True),
        ("a.css", "p { background: url( https://a.org/b.png ) }", True),
        ("a.css", "p { background: url(b.png); content: 'https://a.org' }", False),
        (
            "a.css",
            "p { background: url('data:image/svg+xml;utf8,<svg xmlns=\"http://www.w3.org/2000/svg\"/>') }",
            False,
        ),
        ("a.html", "<style>@import url('https://a.org/b.css')</style>", True),
        ("a.html", '<p style="background: url(//a.org/b.png)">', True),
        ("a.html", "<code>url(https://a.org)</code>", False),
    ],
)
def test_what_a_style_would_fetch_from_elsewhere_is_found(tmp_path: Path, name: str, text: str, is_found: bool) -> None:
    (tmp_path / name).write_text(text)
    assert [page for page, _ in fetched_from_elsewhere(tmp_path)] == [name] * is_found
