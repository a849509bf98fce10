"""How many clients the questions about consumer groups take: none is made anew while its group is asked about."""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from recoveryd.adapters.kafka import group_offsets
from recoveryd.adapters.kafka.group_offsets import KafkaGroupOffsets

PERIOD_S = 5.0


class Answering:
    """A client of a broker that knows of no commit."""

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:
        return partitions


class Groups:
    """Groups on a cluster that answers, and a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, period_s: float = PERIOD_S) -> None:
        self.now_s = self.made = 0
        self._period_s = period_s
        self.living: weakref.WeakSet[Answering] = weakref.WeakSet()
        monkeypatch.setattr(group_offsets, "make_consumer", self._make)
        monkeypatch.setattr(group_offsets, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self._offsets = KafkaGroupOffsets({"main": {}}, period_s=period_s)

    def _make(self, *_: object, **__: object) -> Answering:
        self.made += 1
        self.living.add(made := Answering())
        return made

    async def look(self, *names: str) -> None:
        """One look at all of these at once, as the collector's."""
        self.now_s += self._period_s
        told = await asyncio.gather(*(self._offsets.committed("main", name, {"t": 2}) for name in names))
        assert told == [{"t": {}}] * len(names)

    async def close(self) -> None:
        await self._offsets.close()


@pytest.mark.parametrize("period_s", [PERIOD_S, 120.0, 1200.0])
@pytest.mark.parametrize("count", [3, 129, 300])
async def test_each_group_that_is_looked_at_has_one_client_however_many_there_are_and_however_rarely(
    count: int, period_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups(monkeypatch, period_s)
    for _ in range(4):
        await groups.look(*(f"g{number}" for number in range(count)))
    assert groups.made == count
    await groups.close()


async def test_of_groups_that_nobody_looks_at_any_more_a_few_clients_stay_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, few = Groups(monkeypatch), group_offsets._SPARE_MOST
    await groups.look(*(f"g{number}" for number in range(3 * few)))
    for age_s, left in ((group_offsets._ASKED_S, 3 * few + 1), (PERIOD_S, few), (group_offsets._UNUSED_S, 1)):
        groups.now_s += age_s - PERIOD_S
        await groups.look("new")
        gc.collect()
        assert len(groups.living) == left
    await groups.close()
