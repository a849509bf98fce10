"""`make test` leaves out what is marked `wide`. Each such mark names a test that is not left out, and that shows the
same guarantee.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"(?P<path>tests/[\w/]+\.py)::(?P<test>test_\w+)")


def test_whatever_is_left_out_is_shown_by_a_test_that_is_not() -> None:
    wide = list(_marks())
    assert wide
    assert [path for path in _files() if any(_marks_all(node) for node in _tree(path).body)] == []
    wrong = [f"{place}: {wrong}" for place, mark in wide if (wrong := _what_is_wrong(mark))]
    assert wrong == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("pytest.mark.wide", "names no test"),
        ("pytest.mark.wide()", "names no test"),
        ("pytest.mark.wide('test_this')", "names no test"),
        ("pytest.mark.wide('tests/tools/test_nothing.py::test_this')", "there is no such file"),
        ("pytest.mark.wide('tests/tools/test_wide.py::test_this')", "there is no such test"),
        ("pytest.mark.wide('tests/tools/test_wide.py::test_that_is_left_out')", "is left out itself"),
        ("pytest.mark.wide('tests/tools/test_make.py::test_make_test_leaves_out_what_is_wide')", ""),
    ],
)
def test_a_mark_that_names_nothing_is_found(written: str, said: str) -> None:
    assert _what_is_wrong(ast.parse(written, mode="eval").body) == said


@pytest.mark.parametrize(
    ("written", "is_found"),
    [
        ("pytestmark = [pytest.mark.broker, pytest.mark.wide('x')]", True),
        ("pytestmark = pytest.mark.wide('x')", True),
        ("pytestmark = pytest.mark.broker", False),
        ("WIDE = pytest.mark.wide('x')", False),
    ],
)
def test_a_mark_of_a_whole_file_is_found(written: str, is_found: bool) -> None:
    assert _marks_all(ast.parse(written).body[0]) is is_found


@pytest.mark.wide("tests/tools/test_wide.py::test_a_mark_that_names_nothing_is_found")
def test_that_is_left_out() -> None:
    """There is one that nothing but this file knows."""


def _files() -> list[Path]:
    return sorted((_ROOT / "tests").rglob("test_*.py"))


def _marks_all(node: ast.stmt) -> bool:
    """Whether it marks a whole file, in which nobody would see that the named test is left out."""
    if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "pytestmark":
        return False
    return any(isinstance(part, ast.expr) and _is_wide(part) for part in ast.walk(node))


def _marks() -> Iterator[tuple[str, ast.expr]]:
    for path in _files():
        called: set[ast.expr] = set()
        for node in ast.walk(_tree(path)):  # a call comes before the name that it calls
            if isinstance(node, ast.Call) and _is_wide(node.func):
                called.add(node.func)
                yield f"{path.relative_to(_ROOT)}:{node.lineno}", node
            elif isinstance(node, ast.Attribute) and _is_wide(node) and node not in called:
                yield f"{path.relative_to(_ROOT)}:{node.lineno}", node


def _is_wide(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.wide"


def _what_is_wrong(mark: ast.expr) -> str:
    """`""` when nothing is."""
    named = None
    match mark:
        case ast.Call(args=[ast.Constant(value=str(text))], keywords=[]):
            named = _NAMED.fullmatch(text)
    if named is None:
        return "names no test"
    path = _ROOT / named["path"]
    if not path.is_file():
        return "there is no such file"
    functions = [node for node in _tree(path).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    decorators = next((node.decorator_list for node in functions if node.name == named["test"]), None)
    if decorators is None:
        return "there is no such test"
    is_left_out = any(_is_wide(each.func) if isinstance(each, ast.Call) else _is_wide(each) for each in decorators)
    return "is left out itself" if is_left_out else ""  # marks of single parameters leave the others


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
