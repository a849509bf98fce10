"""Our own Java is compiled once for each state of its sources."""

from pathlib import Path

import pytest

from recoveryd_sandbox.jars import STREAMS, kafka_jars
from recoveryd_sandbox.java_build import CompileFailed, compiled
from recoveryd_sandbox.locks import locked

pytestmark = pytest.mark.broker  # for Kafka's jars, and for the time that a compiler takes

GREETING = "package p;\npublic class Greeting { public static void main(String[] a) { String s = %s; } }\n"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with the machine's jars and nothing else."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / STREAMS.name).symlink_to(kafka_jars(bundle=STREAMS))
    return folder


def test_other_sources_are_compiled_and_the_same_ones_are_not(tmp_path: Path, cache: Path) -> None:
    sources = tmp_path / "sources" / "p"
    sources.mkdir(parents=True)
    (sources / "Greeting.java").write_text(GREETING % '"a"')
    first = compiled(sources.parent, cache)
    assert (first / "p" / "Greeting.class").is_file()
    with locked(cache / "java-classes.lock", 5.0):  # what is there needs no compiler, so it waits for none
        assert compiled(sources.parent, cache) == first
    (sources / "Greeting.java").write_text(GREETING % '"b"')
    assert compiled(sources.parent, cache) != first


def test_what_does_not_compile_is_said_and_leaves_nothing_that_looks_complete(tmp_path: Path, cache: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "Greeting.java").write_text(GREETING % "1")
    with pytest.raises(CompileFailed, match="cannot convert from int to String"):
        compiled(sources, cache)
    assert not list(cache.glob("classes-*"))
