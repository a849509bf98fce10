"""When secrets in files are read again, and what becomes of those that cannot be used."""

import asyncio
import contextlib
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from recoveryd.collectors import secret_files
from recoveryd.collectors.secret_files import AGAIN_S, SecretFile, SecretFiles
from recoveryd.errors import ConfigProblem
from recoveryd.log import configure
from tests.runtime.fakes import ManualClock, until


class Holder:
    """Takes what the file holds; an empty one is refused."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "password"
        self.file.write_text("first")
        self.taken: list[str] = []
        self.refusals = 0
        self.clock = ManualClock()
        self.files = SecretFiles([SecretFile("clusters.main", (self.file,), self.renew)], self.clock, look_s=0.01)

    async def renew(self) -> None:
        try:
            text = self.file.read_text()
        except OSError:
            text = ""
        if not text:
            self.refusals += 1
            raise ConfigProblem("the file is empty", key="clusters.main")
        self.taken.append(text)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.files.run())
        yield
        task.cancel()

    async def looked(self) -> None:
        """Some more looks have passed."""
        await asyncio.sleep(0.1)


async def test_a_file_that_changes_is_read_again_and_one_that_does_not_is_left_alone(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    async with holder.running():
        await holder.looked()
        assert holder.taken == []
        holder.file.write_text("second")
        await until(lambda: holder.taken == ["second"])
        await holder.looked()
    assert (holder.taken, holder.files.refused) == (["second"], {"clusters.main": False})


async def test_an_empty_file_is_refused_and_asked_for_again_once_a_minute(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    async with holder.running():
        holder.file.write_text("")
        await until(lambda: holder.refusals == 1)
        await until(lambda: holder.files.refused["clusters.main"])
        holder.file.write_text("second")
        await holder.looked()
        assert (holder.taken, holder.refusals) == ([], 1)
        holder.clock.ms += int(AGAIN_S * 1000)
        await until(lambda: holder.taken == ["second"])
        await until(lambda: not holder.files.refused["clusters.main"])


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The daemon's log, as JSON."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    configure("json", "info", stream)
    monkeypatch.setattr(secret_files, "log", structlog.stdlib.get_logger("recoveryd.collectors.secret_files"))
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


async def test_the_log_names_the_secret_that_was_read_again_or_refused(tmp_path: Path, logged: io.StringIO) -> None:
    holder = Holder(tmp_path)
    renew = holder.renew

    async def breaks() -> None:
        if holder.file.read_text() == "broken":
            raise RuntimeError
        await renew()

    holder.files = SecretFiles([SecretFile("clusters.east", (holder.file,), breaks)], holder.clock, look_s=0.01)
    async with holder.running():
        for text, says in (
            ("second", "has read a secret again"),
            ("", "the secret of before stays"),
            ("broken", "reading a secret again broke, and that of before stays"),
        ):
            holder.file.write_text(text)
            holder.files.ask()
            await until(lambda says=says: f'"message": "{says}"' in logged.getvalue())
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert {line["name"] for line in lines} == {"clusters.east"}


async def test_who_asks_is_not_made_to_wait(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    async with holder.running():
        holder.file.unlink()
        await until(lambda: holder.refusals == 1)
        holder.file.write_text("second")
        holder.files.ask()
        await until(lambda: holder.taken == ["second"])


async def test_who_asks_has_files_read_that_look_as_before(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    async with holder.running():
        holder.files.ask()
        await until(lambda: holder.taken == ["first"])


async def test_a_file_that_is_replaced_by_one_of_the_same_size_is_read(tmp_path: Path) -> None:
    """As orchestrators do: a link is turned to another folder."""
    holder = Holder(tmp_path)
    (tmp_path / "next").write_text("other")
    async with holder.running():
        (tmp_path / "next").replace(holder.file)
        await until(lambda: holder.taken == ["other"])


async def test_a_refusal_is_over_when_the_file_of_before_is_put_back(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    kept = tmp_path / "kept"
    async with holder.running():
        holder.file.rename(kept)
        await until(lambda: holder.files.refused["clusters.main"])
        kept.rename(holder.file)
        await until(lambda: not holder.files.refused["clusters.main"])
        holder.file.write_text("second")
        await until(lambda: holder.taken == ["second"])


async def test_what_is_in_force_and_was_refused_when_somebody_asked_stays_refused(tmp_path: Path) -> None:
    """As by a broker that lets this login in no more."""
    holder = Holder(tmp_path)
    is_refused = [True]
    renew = holder.renew

    async def refuses() -> None:
        if is_refused[0]:
            holder.refusals += 1
            raise ConfigProblem("it is not let in", key="clusters.main")
        await renew()

    holder.files = SecretFiles([SecretFile("clusters.main", (holder.file,), refuses)], holder.clock, look_s=0.01)
    async with holder.running():
        holder.files.ask()
        await until(lambda: holder.refusals == 1)
        await holder.looked()
        assert holder.files.refused == {"clusters.main": True}
        is_refused[0] = False
        holder.files.ask()
        await until(lambda: not holder.files.refused["clusters.main"])
