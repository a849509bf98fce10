"""What the daemon tells of itself in its metrics."""

from types import SimpleNamespace
from typing import Any

import pytest

from recoveryd.bootstrap.pages import Pulse, own_samples
from recoveryd.kernel.metrics import RECOVERIES
from recoveryd.metrics.definitions import CONTROL_UNREAD, LEADER
from tests.builders.core import BOOK
from tests.runtime.rig import Rig


def told(rig: Rig, unread: int | None = None) -> dict[str, list[float]]:
    """Values by the name of the metric."""
    others: Any = SimpleNamespace(refused={}, waiting={}, control_unread=unread)
    found: dict[str, list[float]] = {}
    for sample in own_samples(rig.runtime, BOOK, Pulse(rig.clock), rig.clock, others, others, others):
        found.setdefault(sample.metric.name, []).append(sample.value)
    return found


@pytest.mark.parametrize(("role", "is_told"), [("leader", True), ("taking_over", True), ("standby", False)])
async def test_only_who_leads_tells_what_is_in_the_state(role: str, *, is_told: bool) -> None:
    """What one knows that led once is of before, and would be added to what the leader tells."""
    rig = Rig()
    assert RECOVERIES.name not in told(rig)
    async with rig.leading():
        rig.runtime.vitals.role = role
        samples = told(rig)
        rig.runtime.vitals.role = "leader"
    assert (RECOVERIES.name in samples) == is_told
    assert samples[LEADER.name] == [1.0 if role == "leader" else 0.0]


async def test_how_much_of_the_control_topic_is_unread_is_told_by_who_leads_and_only_where_it_is_known() -> None:
    rig = Rig()
    assert CONTROL_UNREAD.name not in told(rig, 3)
    async with rig.leading():
        assert told(rig, 3)[CONTROL_UNREAD.name] == [3.0]
        assert told(rig, 0)[CONTROL_UNREAD.name] == [0.0]
        assert CONTROL_UNREAD.name not in told(rig)
