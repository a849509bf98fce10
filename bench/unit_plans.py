"""What units cost the daemon itself: the plan of a large one, and watching how long the inputs of many are kept."""

import time
from collections.abc import Callable

from bench.result import Report, Row, Sample
from recoveryd.recovery.spec import Earliest
from recoveryd.units.facts import Committed, Group, GroupType, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.model import Unit, UnitKind
from recoveryd.units.reach import look_back
from recoveryd.workflows.kinds.reprocess import REPROCESS
from recoveryd.workflows.machine.kind import Planned
from recoveryd.workflows.model.facts import Found, GroupFound
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.spec import ReprocessSpec

NAME = "unit_plans"
_TOPICS, _PARTITIONS = 50, 5_000
_WATCHED = 1_000
_PLAN_S = 3.0
_LOOK_EVERY_S = 300.0
_CORE_SHARE = 0.03


def measure(repeat: int, *, quick: bool) -> list[Report]:
    topics, partitions = (_TOPICS // 10, _PARTITIONS // 10) if quick else (_TOPICS, _PARTITIONS)
    unit, found = _unit(topics, partitions)
    params = WorkflowParams(units={unit.name: unit})
    spec = ReprocessSpec(unit.name, Earliest(), cluster="main", group=unit.group)

    def plan() -> None:
        planned = REPROCESS.plan(spec, found, params)
        assert isinstance(planned, Planned), planned
        assert len(planned.plan.changes) == partitions

    facts = found.units[unit.name]
    watched = _WATCHED // 10 if quick else _WATCHED

    def watch() -> None:
        for _ in range(watched):
            look_back(unit, facts, {})

    rows = (
        Row(f"plan of a unit with {topics} topics, {partitions:,} partitions", _timed(plan, repeat), at_most=_PLAN_S),
        Row(
            f"inputs of {watched:,} such units against their objectives, once each {_LOOK_EVERY_S:.0f} s",
            _timed(watch, repeat),
            at_most=_LOOK_EVERY_S * _CORE_SHARE,
        ),
    )
    return [Report("Units in the daemon itself, without the cluster's answers", rows)]


def _timed(work: Callable[[], None], repeat: int) -> Sample:
    taken = []
    for _ in range(repeat):
        began_s = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began_s)
    return Sample(tuple(taken), "s")


def _unit(topics: int, partitions: int) -> tuple[Unit, Found]:
    names = tuple(f"input-{number:02d}" for number in range(topics))
    each = partitions // topics
    unit = Unit("large", UnitKind.STREAMS, "main", "large", names, stateful=True, retention_objective_ms=1_000)
    group = Group("large", GroupType.CLASSIC, "empty", (), {n: {p: Committed(50) for p in range(each)} for n in names})
    ends = {p: PartitionEnds(0, 100) for p in range(each)}
    known = {name: UnitTopic(name, f"{name}-id", ends, 3) for name in names}
    looks = tuple(PartitionLook(name, p, 0, 100, 50) for name in names for p in range(each))
    inputs = GroupFound(group, looks, (), {name: f"{name}-id" for name in names})
    return unit, Found((inputs, GroupFound(group)), {"large": UnitFacts(0, known, group)})
