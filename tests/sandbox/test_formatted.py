"""Formatted folders in the cache: copies with ids of their own, also when several processes make and take them
at once.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recoveryd_sandbox.formatted import META, Formatted
from recoveryd_sandbox.properties import SingleNode

MADE = {META: "#\n#Wed\ncluster.id=AAAA\ndirectory.id=BBBB\nnode.id=1\nversion=1\n", "bootstrap.checkpoint": "features"}


@pytest.fixture
def formatted(tmp_path: Path) -> Formatted:
    return Formatted.by("kafka-1", "num.partitions=1\n", tmp_path / "cache")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder as Kafka leaves it."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name, text in MADE.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def ids(folder: Path) -> dict[str, str]:
    lines = (line.split("=", 1) for line in contents(folder)[META].splitlines() if "=" in line)
    return {name: value for name, value in lines if name.endswith(".id") and name != "node.id"}


def test_a_copy_has_everything_and_ids_of_its_own(formatted: Formatted, made: Path, tmp_path: Path) -> None:
    formatted.keep(made)
    copies = [tmp_path / "one", tmp_path / "two"]
    assert [formatted.copy_to(copy) for copy in copies] == [True, True]
    assert contents(made) == MADE
    for copy in copies:
        changed = contents(copy)[META]
        for name, value in ids(copy).items():
            changed = changed.replace(f"{name}={value}", f"{name}={ids(made)[name]}")
        assert {**contents(copy), META: changed} == MADE
    everything = [value for folder in (made, *copies) for value in ids(folder).values()]
    assert len(set(everything)) == len(everything) == 6


def test_nothing_is_copied_where_nothing_was_kept_or_its_ids_are_lacking(
    formatted: Formatted, made: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    assert not formatted.copy_to(copy)
    formatted.keep(made)
    (formatted.place / META).unlink()
    assert not formatted.copy_to(copy)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == []


def test_what_cannot_be_kept_is_no_harm(made: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be", encoding="utf-8")
    formatted = Formatted.by("kafka-1", "", tmp_path / "cache")
    formatted.keep(made)
    assert not formatted.copy_to(tmp_path / "copy")


def test_many_at_once_leave_one_folder_and_whole_copies(formatted: Formatted, made: Path, tmp_path: Path) -> None:
    begin = threading.Barrier(8)

    def work(number: int) -> bool:
        begin.wait()
        formatted.keep(made)
        return formatted.copy_to(tmp_path / f"copy{number}")

    with ThreadPoolExecutor(8) as several:
        assert all(several.map(work, range(8)))
    assert [path.name for path in formatted.place.parent.iterdir()] == [formatted.place.name]
    assert {frozenset(contents(tmp_path / f"copy{number}")) for number in range(8)} == {frozenset(MADE)}


def test_other_settings_and_another_kafka_have_a_folder_of_their_own(formatted: Formatted, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert Formatted.by("kafka-2", "num.partitions=1\n", cache) != formatted
    assert Formatted.by("kafka-1", "num.partitions=2\n", cache) != formatted
    assert Formatted.by("kafka-1", "num.partitions=1\n", cache) == formatted


def test_a_node_alone_is_like_others_with_its_settings_unless_they_name_a_path() -> None:
    settings = SingleNode({"num.partitions": "1"}).format_settings()
    assert settings == SingleNode({"num.partitions": "1"}).format_settings()
    assert settings != SingleNode({"num.partitions": "2"}).format_settings()
    assert SingleNode({"rsm.config.dir": "/somewhere"}).format_settings() is None
