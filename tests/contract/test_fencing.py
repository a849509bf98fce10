"""Fencing the lanes of a recovery: it is given up at once for all lanes where a cluster does not answer, and never done
twice at a time.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.lane_commits import LaneCommits
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import ReceiptsHome
from tests.builders.records import make_ledger_question, make_plan

LANES = 100
FENCERS = 8


async def test_lanes_that_were_not_fenced_yet_are_left_alone_once_one_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    is_given_up = threading.Event()

    def fence(_properties: object, name: str, _timeout_ms: int) -> None:
        asked.append(name)
        if not name.endswith(".0"):
            is_given_up.wait(60)
        raise ClusterProblem(f"Could not fence {name}")

    class Pool(ThreadPoolExecutor):
        """Calls under way end once the others were given up, or at the latest when nobody gives them up."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            is_given_up.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr("recoveryd.adapters.kafka.ledger.ThreadPoolExecutor", Pool)
    monkeypatch.setattr("recoveryd.adapters.kafka.ledger.fence", fence)
    ledger = KafkaLedger({"main": {}}, "receipts", "scope")
    plan = make_plan(*((p, 0, 10) for p in range(LANES)))
    with pytest.raises(ClusterProblem):
        await ledger.read(make_ledger_question(plan, fence=True))
    assert len(asked) <= FENCERS + 1


async def test_a_question_that_is_asked_again_does_not_fence_while_markers_are_written_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    writes, is_over = threading.Event(), threading.Event()

    def write_missing(_commits: LaneCommits, _timeout_ms: int) -> None:
        writes.set()
        assert is_over.wait(60)
        raise ClusterProblem("the first is over")

    monkeypatch.setattr("recoveryd.adapters.kafka.ledger.fence", lambda _properties, name, _ms: asked.append(name))
    monkeypatch.setattr(LaneCommits, "write_missing", write_missing)
    ledger = KafkaLedger({"main": {}}, "receipts", "scope", accesses={"main": ClientAccess("nowhere:1")})
    plan = replace(make_plan((0, 0, 10)), lanes=((0,),), receipts=ReceiptsHome("receipts", "id", 0, 0))
    question = make_ledger_question(plan, fence=True)
    first = asyncio.ensure_future(ledger.read(question))
    assert await asyncio.to_thread(writes.wait, 60)
    with pytest.raises(ClusterProblem, match="already"):
        await ledger.read(question)
    assert len(asked) == 1
    is_over.set()
    with pytest.raises(ClusterProblem, match="over"):
        await first
    with pytest.raises(ClusterProblem, match="over"):
        await ledger.read(question)
    assert len(asked) == 2
