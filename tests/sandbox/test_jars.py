"""The cache of Kafka's jars, without fetching anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recoveryd_sandbox.errors import JarsUnavailable, LockTimeout
from recoveryd_sandbox.jars import default_cache_dir, kafka_jars
from recoveryd_sandbox.locks import locked


def test_a_folder_under_its_final_name_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kafka_2.13-4.3.1").mkdir()

    assert kafka_jars(tmp_path) == tmp_path / "kafka_2.13-4.3.1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kafka_2.13-4.3.1"]


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("RECOVERYD_CACHE_DIR", raising=False)
    assert default_cache_dir() == Path("/home/someone/.cache/recoveryd")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert default_cache_dir() == Path("/var/cache/recoveryd")
    monkeypatch.setenv("RECOVERYD_CACHE_DIR", "/fast/disk")
    assert default_cache_dir() == Path("/fast/disk")


def test_offline_the_error_says_what_to_do_and_leaves_nothing_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real Ivy with settings that name an empty folder as the only repository: nothing can be found."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{tmp_path}/nothing/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("RECOVERYD_IVY_SETTINGS", str(settings))

    with pytest.raises(JarsUnavailable) as caught:
        kafka_jars(tmp_path / "cache", deadline_s=2.0)

    assert caught.value.message.startswith("Could not fetch the jars of Apache Kafka 4.3.1")
    assert "RECOVERYD_IVY_SETTINGS" in caught.value.hint
    assert not (tmp_path / "cache" / "kafka_2.13-4.3.1").exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_who_waits_for_another_fetch_gives_up_at_the_deadline(tmp_path: Path) -> None:
    with locked(tmp_path / "kafka-jars.lock", deadline_s=5), pytest.raises(LockTimeout):
        kafka_jars(tmp_path, deadline_s=0.3)


def test_who_waited_for_another_fetch_uses_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "kafka_2.13-4.3.1"

    @contextmanager
    def locked_late(path: Path, deadline_s: float) -> Iterator[None]:
        """The other process finishes while we wait for the lock."""
        jars.mkdir()
        with locked(path, deadline_s):
            yield

    def must_not_fetch() -> Path:
        raise AssertionError("fetched what was there")

    monkeypatch.setattr("recoveryd_sandbox.jars.locked", locked_late)
    monkeypatch.setattr("recoveryd_sandbox.jars.find_java", must_not_fetch)

    assert kafka_jars(tmp_path) == jars
