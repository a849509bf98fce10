"""The command line of a program in Java, and the archive of its classes."""

from pathlib import Path

import pytest

from recoveryd_sandbox.class_archives import merged
from recoveryd_sandbox.jvm import Jvm


@pytest.fixture
def jvm(tmp_path: Path) -> Jvm:
    java, jars = tmp_path / "java", tmp_path / "jars"
    java.touch()
    jars.mkdir()
    return Jvm(java, jars)


def test_an_archive_of_classes_is_offered_to_java_once_there_is_one(jvm: Jvm) -> None:
    before = jvm.command("Main", "word")
    assert not any("SharedArchive" in word for word in before)
    jvm.archive.touch()
    assert set(jvm.command("Main", "word")) - set(before) == {
        f"-XX:SharedArchiveFile={jvm.archive}",
        "-Xlog:cds*=off",
    }


def test_another_java_has_another_archive(jvm: Jvm, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    assert Jvm(other, jvm.jars).archive != jvm.archive


def test_our_own_classes_stand_after_the_jars_that_were_archived(jvm: Jvm, tmp_path: Path) -> None:
    command = Jvm(jvm.java, jvm.jars, tmp_path / "classes").command("Main")
    assert command[-2:] == [f"{jvm.jars}/*:{tmp_path / 'classes'}", "Main"]


def test_the_lists_of_several_programs_become_one_without_their_numbers() -> None:
    lists = [
        "# a comment\na/A id: 0\na/B id: 1\n@lambda-proxy a/B run\n",
        "a/B id: 0\na/C id: 1\na/D id: 2 super: 0 source: x.jar\n",
    ]
    assert merged(lists) == ["a/A", "a/B", "@lambda-proxy a/B run", "a/C"]
