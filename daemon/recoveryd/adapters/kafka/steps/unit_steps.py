"""Looking at a unit for a workflow whose core judges what is found, and how much its group has left to read."""

from recoveryd.adapters.kafka.steps.gathering import Gatherer
from recoveryd.adapters.kafka.steps.group_steps import find_behind
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reporting import report
from recoveryd.workflows.model.actions import AwaitCaughtUp, LookAtUnit
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import WantedFacts


class UnitSteps:
    def __init__(self, reach: Reach, gatherer: Gatherer) -> None:
        self._reach = reach
        self._gatherer = gatherer

    async def look(self, effect: TakeStep, action: LookAtUnit) -> StepReported:
        """The group is asked before its topics, so that it cannot look as if it were beyond their ends."""
        left = await self._left(action) if action.ends else None
        topics = tuple((action.cluster, name) for name in action.topics)
        wanted = WantedFacts(units=(action.unit,), topics=topics, with_readers=action.with_readers)
        found = await self._gatherer.gather(wanted)
        return report(effect, Outcome.DONE, f"looked at {action.unit}", found=found, left=left)

    async def _left(self, action: LookAtUnit) -> int:
        wanted = AwaitCaughtUp(action.cluster, action.group, action.ends)
        properties, admin = self._reach.clusters[action.cluster], self._reach.admin(action.cluster)
        behind = await self._reach.run(action.cluster, find_behind, properties, admin, wanted)
        return sum(action.ends[topic][p] - at for (topic, p), at in behind.items())
