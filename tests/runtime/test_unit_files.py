"""When the units are read again, and who is told."""

import asyncio
from dataclasses import replace

from recoveryd.collectors.unit_files import UnitFiles
from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.units.approvals import ApprovalBy, ApprovalRule
from recoveryd.units.events import UnitsRead
from recoveryd.units.params import UnitParams
from tests.runtime.fakes import until
from tests.units.test_lint import WORDS

RULES = (ApprovalRule(ApprovalBy.OWNER),)
ONE, TWO = UnitParams({"words": WORDS}, RULES), UnitParams({"words": replace(WORDS, owner="others")})
BAD = ConfigProblem("It is not YAML.", origin="units.d/words.yaml", line=3)


def of(read: UnitParams) -> UnitsRead:
    return UnitsRead(read.units, approvals=read.approvals)


class Files:
    """`reads`: what comes of each reading, in order."""

    def __init__(self, *reads: UnitParams | Exception, leads: bool = True) -> None:
        self.reads, self.leads, self.told = list(reads), leads, []  # type: ignore[var-annotated]
        self.collector = UnitFiles(self.read, self.told.append, lambda: self.leads)
        self.task = asyncio.create_task(self.collector.run())

    def read(self) -> UnitParams:
        found = self.reads.pop(0)
        if isinstance(found, Exception):
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
    assert (good, mended) == (of(ONE), of(TWO))
    assert (bad.units, bad.approvals, bad.problem, bad.code) == (ONE.units, RULES, str(BAD), BAD.code.value)


async def test_a_bad_first_reading_says_nothing_of_units_and_rules() -> None:
    files = Files(BAD)
    files.collector.ask()
    [bad] = await files.heard(1)
    files.task.cancel()
    assert (bad.units, bad.approvals, bad.problem) == (None, None, str(BAD))


async def test_a_reading_that_breaks_is_a_bad_one_too_and_the_next_one_counts() -> None:
    files = Files(ONE, RuntimeError("s3cret"), TWO)
    for count in (1, 2, 3):
        files.collector.ask()
        await files.heard(count)
    files.task.cancel()
    good, broken, mended = files.told
    assert (good, mended) == (of(ONE), of(TWO))
    assert (broken.units, broken.approvals, broken.code) == (ONE.units, RULES, Code.INVARIANT_BROKEN.value)
    assert "RuntimeError" in broken.problem
    assert "s3cret" not in broken.problem


async def test_a_standby_reads_too_and_tells_when_it_leads() -> None:
    files = Files(ONE, leads=False)
    files.collector.ask()
    await until(lambda: not files.reads)
    assert files.told == []
    files.leads = True
    [told] = await files.heard(1)
    assert told in (of(ONE), replace(of(ONE), is_told_again=True))  # it may lead before it has read to the end
    files.task.cancel()


async def test_a_daemon_that_was_never_asked_reads_nothing() -> None:
    files = Files()
    await asyncio.sleep(0)
    files.task.cancel()
    assert files.told == []
