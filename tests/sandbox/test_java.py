"""Finding Java: the answer of `java -version`, and the error when there is none."""

import stat
from pathlib import Path

import pytest

from recoveryd_sandbox.errors import JavaMissing
from recoveryd_sandbox.java import find_java, parse_java_major


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion=9\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_any_vendors_output(printed: str, major: int | None) -> None:
    assert parse_java_major(printed) == major


def make_java(folder: Path, version: str, exit_code: int = 0) -> Path:
    """A program that answers `-version` like a Java of that version."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {exit_code}\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    at_home = make_java(tmp_path / "home", "21.0.1")
    on_path = make_java(tmp_path / "path", "17.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})

    assert found == at_home


def test_a_java_home_that_is_too_old_does_not_hide_a_good_java_on_the_path(tmp_path: Path) -> None:
    make_java(tmp_path / "home", "1.8.0_392")
    on_path = make_java(tmp_path / "path", "17.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})

    assert found == on_path


def test_without_java_the_error_names_the_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing) as caught:
        find_java({"PATH": str(tmp_path)})

    assert caught.value.message == (
        "Kafka and Spark need Java 17 or newer, and this machine has none in JAVA_HOME or on PATH."
    )
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_a_java_that_is_too_old_is_named_with_its_version(tmp_path: Path) -> None:
    old = make_java(tmp_path, "11.0.2")

    with pytest.raises(JavaMissing) as caught:
        find_java({"PATH": str(old.parent)})

    assert caught.value.message == (
        f"Kafka and Spark need Java 17 or newer, and this machine has only an older one ({old} is version 11)."
    )


def test_a_stub_that_fails_is_no_java(tmp_path: Path) -> None:
    stub = make_java(tmp_path, "17.0.1", exit_code=1)

    with pytest.raises(JavaMissing):
        find_java({"PATH": str(stub.parent)})
