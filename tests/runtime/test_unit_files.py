"""When the units are read again, and who is told."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.collectors.unit_files import UnitFiles
from recoveryd.errors import ConfigProblem
from recoveryd.units.events import UnitsRead
from recoveryd.units.model import Unit
from tests.runtime.fakes import until
from tests.units.test_lint import WORDS

ONE, TWO = {"words": WORDS}, {"words": replace(WORDS, owner="others")}
BAD = ConfigProblem("It is not YAML.", origin="units.d/words.yaml", line=3)


class Files:
    """`reads`: what comes of each reading, in order."""

    def __init__(self, *reads: Mapping[str, Unit] | ConfigProblem, leads: bool = True) -> None:
        self.reads, self.leads, self.told = list(reads), leads, []  # type: ignore[var-annotated]
        self.collector = UnitFiles(self.read, self.told.append, lambda: self.leads)
        self.task = asyncio.create_task(self.collector.run())

    def read(self) -> Mapping[str, Unit]:
        found = self.reads.pop(0)
        if isinstance(found, ConfigProblem):
            raise found
        return found

    async def heard(self, count: int) -> list[UnitsRead]:
        await until(lambda: len(self.told) == count)
        return self.told


async def test_each_reading_is_told_and_a_bad_one_keeps_those_of_before() -> None:
    files = Files(ONE, BAD, TWO)
    for count in (1, 2, 3):
        files.collector.ask()
        await files.heard(count)
    files.task.cancel()
    good, bad, mended = files.told
    assert (good, mended) == (UnitsRead(ONE), UnitsRead(TWO))
    assert (bad.units, bad.problem, bad.code) == (ONE, str(BAD), BAD.code.value)


async def test_a_standby_reads_too_and_tells_when_it_leads() -> None:
    files = Files(ONE, leads=False)
    files.collector.ask()
    await until(lambda: not files.reads)
    assert files.told == []
    files.leads = True
    [told] = await files.heard(1)
    assert told in (UnitsRead(ONE), UnitsRead(ONE, is_told_again=True))  # it may lead before it has read to the end
    files.task.cancel()


async def test_a_daemon_that_was_never_asked_reads_nothing() -> None:
    files = Files()
    await asyncio.sleep(0)
    files.task.cancel()
    assert files.told == []
