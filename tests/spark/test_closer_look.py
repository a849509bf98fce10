"""A task of the closer look answers very many questions: what it does for each does not grow with their number."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd_jobs.contract import Difference, JobSpec, Receipt, encode
from recoveryd_jobs.verify import judge, tasks
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import PairFinding, PairQuestion, ProofVerdict
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import ProofPlan
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.segments import SegmentWalk, segments
from recoveryd_jobs.verify.shown import DIFFERENCES_MAX, Shown
from tests.builders.proving import FreeGuest
from tests.spark.test_contract import SPEC

COUNT = 50


class CountingLedger(ProofLedger):
    """Counts receipts that are looked at. Those of each source partition cover one offset each."""

    def __init__(self, sources: int) -> None:
        super().__init__()
        self.looks = 0
        for partition in range(sources):
            for at in range(COUNT):
                said = Receipt("s", "r", 0, 1, 0, 0, at, at + 1, 0, 0, 1, 0, 0)
                self.put(partition, at, encode(replace(said, partition=partition)))
        self.settle()
        self.index()

    def sent(self, partition: int, start: int) -> tuple[int, int]:
        self.looks += 1
        return super().sent(partition, start)


def spec_of(targets: int) -> JobSpec:
    return replace(SPEC, verify="source", target=replace(SPEC.target, mapping="key_hash", partitions=targets))


def looks_at(sources: int, targets: int, start: int) -> int:
    """How many receipts are looked at for a question about each pair, which asks for the one at `start`."""
    ledger, whole = CountingLedger(sources), tuple(Range(p, 0, COUNT) for p in range(max(sources, targets)))
    plan = ProofPlan(whole[:sources], whole[:targets], {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    look = Look(spec_of(targets), plan, ledger, FreeGuest())  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look, "_reader", lambda _side: None)
        patch.setattr(look, "_read", lambda *_: iter(()))
        for pair in ((source, target) for source in range(sources) for target in range(targets)):
            [found] = look.answer(PairQuestion(pair, (start,), {})).differences
            assert (found.source_partition, found.source_offset, found.target_partition) == (pair[0], start, pair[1])
    ledger.close()
    return ledger.looks


def test_receipts_are_looked_at_once_for_all_questions_about_their_partition() -> None:
    assert looks_at(2, 3, COUNT - 1) == looks_at(2, 30, COUNT - 1) == 2 * COUNT


def test_receipts_after_all_that_is_asked_for_are_not_looked_at() -> None:
    assert looks_at(1, 30, 4) <= 7


_claims = st.dictionaries(st.integers(0, 12), st.integers(-1, 14), max_size=6)


@given(_claims, st.integers(0, 6), st.integers(0, 14), st.lists(st.integers(0, 14)))
def test_a_walk_has_just_the_segments_that_begin_there(
    claims: dict[int, int], start: int, stop: int, asked: list[int]
) -> None:
    """Also where receipts lie over each other, go past the range, or cover nothing."""
    ledger = ProofLedger()
    for first, last in claims.items():
        ledger.put(0, first, encode(Receipt("s", "r", 0, 1, 0, 0, first, last, 0, 0, 0, 0, 0)))
    ledger.settle()
    ledger.index()

    def found() -> Iterator[tuple[int, int]]:
        return ((s.start, s.stop) for s in segments(0, start, stop, ledger, Shown(), kept=False))

    walk = SegmentWalk(segments(0, start, stop, ledger, Shown(), kept=False))
    assert [walk.begin_at(at) for at in asked] == [[s for s in found() if s[0] == at] for at in asked]
    assert [s for at in range(15) for s in walk.begin_at(at)] == [*found()]
    ledger.close()


class StillGuest(FreeGuest):
    def step(self) -> None: ...


def lots(pair: tuple[int, int]) -> list[Difference]:
    """As many as a pair lists, those of the last pairs first in the report."""
    return [Difference("altered", 1_000 - pair[0], at, pair[1], at) for at in range(DIFFERENCES_MAX)]


@pytest.mark.parametrize("pairs", [1, 10, 100])
def test_a_task_tells_as_many_differences_as_a_report_lists(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(tasks, "Guest", lambda *_: StillGuest())
    monkeypatch.setattr(tasks, "_as_guest", lambda guest, work: work(guest))
    monkeypatch.setattr(tasks, "check_topics", lambda _topics: None)
    monkeypatch.setattr(tasks, "make_topics", lambda _spec: ())
    monkeypatch.setattr("recoveryd_jobs.verify.ledger.load", lambda *_: CountingLedger(0))
    monkeypatch.setattr(Look, "answer", lambda _look, asked: PairFinding(lots(asked.pair), 5, heads=1))
    plan = ProofPlan((), (), {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    found = tasks.look_closer(spec_of(1), plan, [PairQuestion((at, 0), (0,), {}) for at in range(pairs)], 0, 1)
    assert (found.differences, found.heads) == (lots((pairs - 1, 0)), pairs)
    assert len(found.differences) + found.more == pairs * (DIFFERENCES_MAX + 5)


Told = list[tuple[list[tuple[str, int, int, int]], int]]  # by pair: (kind, partition, offset, count), and how many more
_places = st.tuples(st.sampled_from(["altered", "ledger"]), st.integers(0, 2), st.integers(0, 2), st.integers(0, 99))
_findings = st.lists(st.tuples(st.lists(_places, max_size=8), st.integers(0, 2)), max_size=8)


@given(_findings, _findings, st.integers(1, 4))
def test_a_report_is_the_same_whatever_tasks_summed_up_before(told: Told, before: Told, parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "DIFFERENCES_MAX", 5)
        findings = [PairFinding([Difference(k, p, at, 0, 0, n) for k, p, at, n in some], more) for some, more in told]
        known = [Difference(k, p, at, 0, 0, n) for some, _ in before for k, p, at, n in some]
        tasks_of = [findings[n::parts] for n in range(parts)]
        report = judge.report(ProofVerdict(known), [judge.summed(part) for part in tasks_of])
        every = [*known, *(d for part in tasks_of for finding in part for d in finding.differences)]
        wanted = sorted(every, key=lambda d: (d.kind == "ledger", d.source_partition, d.source_offset))
        total = len(every) + sum(finding.more for finding in findings)
        assert report.differences == tuple(wanted[:5])
        assert report.why == (f"{total} differences, the first 5 are listed" if total > 5 else "")
