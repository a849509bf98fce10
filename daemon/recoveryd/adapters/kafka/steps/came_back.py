"""Topics that went before offsets were set, and came back with records: somebody ran the application in between, and it
read from its old offsets. Commits of it would have been seen, and nothing set; where it died before its first one, what
it left in its changelogs would count twice. So they go once more, by their ids, while the group has no members.
"""

from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.going import await_gone, await_no_commits
from recoveryd.adapters.kafka.steps.members import not_empty
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.reporting import not_done
from recoveryd.adapters.kafka.steps.topic_mending import records_in
from recoveryd.adapters.kafka.steps.try_time import TryTime
from recoveryd.adapters.kafka.topic_admin import TopicShape, delete, describe
from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.actions import SetOffsets
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import StepReported


class CameBack:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def take_away(self, effect: TakeStep, action: SetOffsets, told: StepReported) -> StepReported:
        """`told`: of offsets that are set, as was just read back. Raises `ClusterProblem`, which names the topic."""
        cluster, admin = action.cluster, self._reach.admin(action.cluster)
        found = await self._reach.run(cluster, _with_records, admin, action.gone)
        if not found:
            return told
        names = ", ".join(found)
        if effect.is_look:
            return not_done(effect, f"{names} came back with records, and has to go")
        members = await self._reach.members(cluster, action.group)
        if members:
            waits = not_empty(effect, action.group, members, is_tried=True)
            return replace(waits, why=f"{names} came back with records; {waits.why}")
        await self._reach.run(cluster, self._delete, admin, action, found)
        why = f"{told.why}; {names} had come back with records of a run from the old offsets, and went once more"
        return replace(told, why=why, evidence={**told.evidence, "came_back": list(found)})

    def _delete(self, admin: AdminClient, action: SetOffsets, found: Mapping[str, TopicShape]) -> None:
        at = TryTime()
        for name in at.each(found):
            now = describe(admin, [name], TIMEOUT_S)[name]
            if now is not None and now.topic_id != found[name].topic_id:
                raise ClusterProblem(f"{name} came back once more: somebody runs {action.group}")
            delete(admin, name, TIMEOUT_S)
        at.check()
        await_gone(admin, {name: shape.topic_id for name, shape in found.items()}, at)
        await_no_commits(self._reach.clusters[action.cluster], action.group, found.values(), at)


def _with_records(admin: AdminClient, gone: Mapping[str, str]) -> dict[str, TopicShape]:
    """Those that are there again, whatever their ids, and hold something."""
    there = {name: shape for name, shape in describe(admin, gone, TIMEOUT_S).items() if shape is not None}
    return {name: shape for name, shape in there.items() if records_in(admin, shape)}
