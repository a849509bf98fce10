"""Who is asked how long topics are kept, and when."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.adapters.kafka.retention import KafkaRetention
from recoveryd.adapters.memory import ManualClock
from recoveryd.collectors.retention import RetentionCollector
from recoveryd.units.events import RetentionSeen
from tests.runtime.fakes import until
from tests.units.test_lint import WORDS


class Topics:
    """`kept` by cluster and topic; each question is noted."""

    def __init__(self, **kept: dict[str, int | None]) -> None:
        self.kept, self.asked = kept, []  # type: ignore[var-annotated]

    async def kept_ms(self, cluster: str, topics: Collection[str]) -> Mapping[str, int | None]:
        self.asked.append((cluster, sorted(topics)))
        return {topic: ms for topic, ms in self.kept.get(cluster, {}).items() if topic in topics}

    async def close(self) -> None:
        return


def make(topics: Topics, events: list[object], *, leads: bool = True) -> RetentionCollector:
    units = [
        WORDS,
        replace(WORDS, name="more", inputs=("words", "lost")),
        replace(WORDS, name="far", cluster="dr"),
        replace(WORDS, name="free", retention_objective_ms=None),
    ]
    return RetentionCollector(lambda: units, topics, events.append, lambda: leads, ManualClock())


async def test_each_cluster_is_asked_once_for_the_inputs_of_all_units_with_an_objective() -> None:
    topics, events = Topics(main={"words": 5, "other": 1}), []  # type: ignore[var-annotated]
    await make(topics, events).collect()
    assert topics.asked == [("dr", ["words"]), ("main", ["lost", "words"])]
    assert events == [
        RetentionSeen("far", {}, ("words",)),
        RetentionSeen("words", {"words": 5}),
        RetentionSeen("more", {"words": 5}, ("lost",)),
    ]


async def test_a_leader_asks_at_once_and_a_standby_never() -> None:
    for leads, asked in ((True, 2), (False, 0)):
        topics, events = Topics(), []  # type: ignore[var-annotated]
        task = asyncio.create_task(make(topics, events, leads=leads).run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        assert len(topics.asked) == asked


async def test_units_that_are_new_are_asked_for_at_once() -> None:
    topics, events = Topics(), []  # type: ignore[var-annotated]
    units = [WORDS]
    collector = RetentionCollector(lambda: units, topics, events.append, lambda: True, ManualClock())
    task = asyncio.create_task(collector.run())
    await until(lambda: len(topics.asked) == 1)
    units.append(replace(WORDS, name="far", cluster="dr"))
    await until(lambda: len(topics.asked) == 3)
    task.cancel()
    assert topics.asked == [("main", ["words"]), ("dr", ["words"]), ("main", ["words"])]


async def test_one_cluster_of_which_the_question_breaks_costs_no_other_cluster_its_answer() -> None:
    class Broken(Topics):
        async def kept_ms(self, cluster: str, topics: Collection[str]) -> Mapping[str, int | None]:
            if cluster == "dr":
                raise ZeroDivisionError("a bug")
            return await super().kept_ms(cluster, topics)

    events: list[object] = []
    await make(Broken(main={"words": 5}), events).collect()
    assert events == [RetentionSeen("words", {"words": 5}), RetentionSeen("more", {"words": 5}, ("lost",))]


async def test_a_cluster_whose_certificate_is_not_there_says_nothing_and_the_log_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = {"security.protocol": "SSL", "ssl.certificate.location": str(tmp_path / "lost.pem")}
    asked = KafkaRetention({"dr": {"bootstrap.servers": "127.0.0.1:9", **lost}})
    try:
        assert [await asked.kept_ms("dr", ["a"]) for _ in range(2)] == [{}, {}]
    finally:
        await asked.close()
    told = [line.getMessage() for line in caplog.records if line.name == "recoveryd.kafka"]
    assert len([line for line in told if "lost.pem" in line]) == 1, told


async def test_without_units_nobody_is_asked() -> None:
    topics = Topics()
    await RetentionCollector(list, topics, print, lambda: True, ManualClock()).collect()
    assert topics.asked == []
