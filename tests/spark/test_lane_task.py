"""What a lane's task tells the lane of itself."""

from collections.abc import Callable, Iterable
from typing import Any

import pyspark
import pytest

from recoveryd_jobs.contract import JobSpec, LaneSpec
from recoveryd_jobs.driver import kinds
from recoveryd_jobs.lane.life import LaneOutcome
from tests.spark.test_mending import spec_of


class Context:
    """Runs the tasks of a job in this process."""

    def parallelize(self, items: list[Any], _parts: int) -> "Context":
        self._items = items
        return self

    def mapPartitions(self, task: Callable[[Iterable[Any]], Iterable[Any]]) -> "Context":  # noqa: N802  (Spark's)
        self._found = list(task(self._items))
        return self

    def collect(self) -> list[Any]:
        return self._found


class Task:
    def __init__(self, started: int) -> None:
        self._started = started

    def attemptNumber(self) -> int:  # noqa: N802  (Spark's)
        return self._started


@pytest.mark.parametrize(("started", "again"), [(0, False), (1, True), (3, True)])
def test_a_task_that_spark_starts_again_says_so(monkeypatch: pytest.MonkeyPatch, started: int, again: bool) -> None:
    told: list[bool] = []

    def run_lane(_spec: JobSpec, lane: LaneSpec, *, again: bool) -> LaneOutcome:
        told.append(again)
        return LaneOutcome(lane.lane, "done")

    monkeypatch.setattr(kinds, "run_lane", run_lane)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Task(started))
    assert kinds.run_lane_job(Context(), spec_of("same", 1), 0) == LaneOutcome(0, "done")
    assert told == [again]
