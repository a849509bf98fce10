"""A group that delivers nothing any more is told from one that has nothing to deliver."""

import pytest

from recoveryd.collectors.control_topic import STALLED_AFTER_S, ControlTopicWatch
from recoveryd.errors import ClusterProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Event
from tests.runtime.fakes import QuietClusters, StillIntake

EVERY_S = 10.0


class Rig:
    """A leader that took everything before offset 3."""

    def __init__(self) -> None:
        self.clusters, self.intake, self.events = QuietClusters(), StillIntake(), list[Event]()
        self.intake.position = self.clusters.end = 3
        self.is_slow, self.now_s = False, 0.0
        self.watch = ControlTopicWatch(self.clusters, self.intake, self.events.append, lambda: self.is_slow)

    async def look(self, times: int = 1, *, end: int | None = None) -> list[int]:
        """The ends to which it had the topic looked at, so far."""
        self.clusters.end = self.clusters.end if end is None else end
        for _ in range(times):
            self.now_s += EVERY_S
            await self.watch.look("control-1", self.now_s)
        return self.intake.looked


async def silent() -> Rig:
    """One whose group was silent once, with two records on the topic."""
    rig = Rig()
    rig.intake.finds = [2]
    assert await rig.look(2, end=5) == [5]
    return rig


async def test_what_the_group_leaves_on_the_topic_from_one_look_to_the_next_is_looked_for() -> None:
    rig = Rig()
    assert await rig.look(3) == []
    assert await rig.look(end=5) == []
    assert await rig.look() == [5]
    assert await rig.look(20) == [5], "nothing was there, as where it is the marker of a transaction"
    assert await rig.look(20, end=6) == [5, 6]
    assert rig.events == []


async def test_what_is_unread_is_known_until_the_cluster_tells_nothing() -> None:
    rig = Rig()
    assert rig.watch.unread is None
    await rig.look(end=5)
    assert rig.watch.unread == 2
    rig.intake.deliver(5)
    await rig.look()
    assert rig.watch.unread == 0
    rig.clusters.end_error = ClusterProblem("no leader")
    await rig.look()
    assert rig.watch.unread is None


async def test_a_group_that_is_silent_again_is_given_three_minutes_from_the_first_record_on() -> None:
    """A broker that stands still, or coordinates the group slowly, would be no better for a new process."""
    rig = await silent()
    await rig.look()
    for end in range(6, 6 + int(STALLED_AFTER_S / EVERY_S) - 1):
        rig.intake.finds.append(1)
        await rig.look(end=end)
    assert len(rig.intake.looked) > 5
    with pytest.raises(RecoverydError) as raised:
        await rig.look()
    assert (raised.value.code, raised.value.retriable) == (Code.COMMITS_STALLED, False)


async def test_a_group_that_stays_silent_ends_the_daemon_without_another_record() -> None:
    rig = await silent()
    await rig.look(int(STALLED_AFTER_S / EVERY_S))
    with pytest.raises(RecoverydError) as raised:
        await rig.look()
    assert raised.value.code is Code.COMMITS_STALLED


async def test_a_group_that_delivers_again_may_be_late_once_more() -> None:
    rig = await silent()
    await rig.look(3)
    rig.intake.deliver(5)
    rig.intake.finds = [1]
    assert await rig.look(4, end=6) == [5, 6]
    rig.intake.deliver(6)
    assert await rig.look(40) == [5, 6]


async def test_a_group_that_is_behind_and_delivers_is_not_silent() -> None:
    rig = Rig()
    for position in range(3, 20):
        rig.intake.deliver(position)
        assert await rig.look(end=50) == []
        rig.intake.deliver(position)  # what comes again is a sign of life too
        assert await rig.look() == []


async def test_while_a_record_waits_for_its_place_nothing_is_missing() -> None:
    rig = Rig()
    rig.intake.is_idle = False
    assert await rig.look(20, end=50) == []


async def test_while_the_broker_is_slow_or_tells_nothing_a_group_is_not_silent() -> None:
    rig = await silent()
    rig.intake.finds = [1]
    for _ in range(10):
        await rig.look(end=6)
        rig.is_slow = True
        await rig.look()
        rig.is_slow = False
        await rig.look()
        rig.clusters.end_error = ClusterProblem("no leader")
        await rig.look()
        rig.clusters.end_error = None
    assert rig.intake.looked == [5]
