"""Fencing the lanes of a recovery on a cluster that does not answer: it is given up at once for all lanes, not lane by
lane.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.errors import ClusterProblem
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
