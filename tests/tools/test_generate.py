"""All generated files are up to date, and the program that makes them lists those that are not."""

import shutil
from pathlib import Path

import pytest

from tools.generate import GENERATED, main


@pytest.mark.parametrize("name", GENERATED)
def test_every_generated_file_is_up_to_date(name: str) -> None:
    assert [str(path) for path in GENERATED[name].stale()] == [], "run python -m tools.generate"


def test_what_may_be_left_out_of_a_command_is_in_brackets_once() -> None:
    (page,) = GENERATED["cli"].make().values()
    headings = [line for line in page.splitlines() if line.startswith("### ")]
    assert "### `recoveryctl watch [ID]`" in headings
    assert "### `recoveryctl explain [WORD]`" in headings
    assert "### `recoveryctl topics diff [CLUSTER:]TOPIC [CLUSTER:]TOPIC`" in headings
    assert not [line for line in headings if "[[" in line]


def test_no_file_is_made_twice() -> None:
    files = [path for generated in GENERATED.values() for path in generated.make()]
    assert len(files) == len(set(files))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that holds only the page whose prose is written by hand."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/contract.md").write_text("# The contract\n\n<!-- begin verbs -->\nold\n<!-- end verbs -->\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_check_names_a_file_that_is_not_and_writes_none(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "config/schemas/command.replay.v1.json is out of date" in told
    assert "grafana/dashboards/recovery.json is out of date" in told
    assert [path.name for path in elsewhere.rglob("*") if path.is_file()] == ["contract.md"]


def test_what_is_made_is_up_to_date_and_keeps_the_prose(elsewhere: Path) -> None:
    assert main([]) == 0
    assert main(["--check"]) == 0
    text = (elsewhere / "docs/contract.md").read_text()
    assert text.startswith("# The contract\n")
    assert "| `replay` |" in text


def test_names_choose_among_them(elsewhere: Path) -> None:
    assert main(["acls", "cli"]) == 0
    assert sorted(path.name for path in (elsewhere / "docs").iterdir()) == ["acls.md", "cli.md", "contract.md"]
    assert main(["--check", "acls"]) == 0
    with pytest.raises(SystemExit):
        main(["akls"])


@pytest.mark.parametrize("name", ["schemas", "dashboards"])
def test_what_was_changed_by_hand_or_is_left_over_is_noticed_and_put_right(name: str, elsewhere: Path) -> None:
    assert main([name]) == 0
    first = next(iter(GENERATED[name].make()))
    left_over = first.with_name("old.json")
    shutil.copy(first, left_over)
    first.write_text("{}", encoding="utf-8")
    assert GENERATED[name].stale().keys() == {first, left_over}
    assert main([name]) == 0
    assert main(["--check", name]) == 0
    assert not left_over.exists()
