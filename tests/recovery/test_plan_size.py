"""A recovery of very many partitions is refused before it begins, since its end could not be journaled."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import RefusedError
from recoveryd.kernel.states import State
from recoveryd.recovery.model import (
    Allowance,
    CompletenessRow,
    PartitionProgress,
    Plan,
    PlannedPartition,
    Recovery,
    RemoteRange,
)
from recoveryd.recovery.params import Params
from recoveryd.recovery.size import RECORD_BYTES_MOST, check_comparison_size, check_copy_size
from recoveryd.recovery.spec import AtOffsets
from recoveryd.replay.plan import make_plan
from recoveryd.verification.spec import ComparedRef
from recoveryd.wire.topics import MAX_STATUS_RECORD_BYTES
from tests.builders.core import STATUS, command, make_facts, make_spec
from tests.builders.world import World

LARGE = 10**15 - 1


@pytest.mark.parametrize(("verb", "told"), [("replay", "20.6"), ("verify", "9.0")])
def test_a_topic_of_very_many_partitions_is_refused_with_the_numbers(verb: str, told: str) -> None:
    world = World(make_facts((10,) * 20_000))
    world.feed(command(verb))
    refused = world.recovery()
    assert (refused.state, refused.error_code) == (State.REJECTED, Code.TOO_MANY_PARTITIONS.value)
    assert refused.why == f"20,000 partitions need {told} MB to be noted, and one recovery takes 8 MB"
    assert "source.partitions" in (world.answers[-1].hint or "")


def test_a_part_of_very_many_partitions_is_taken() -> None:
    spec = make_spec()
    part = replace(spec, source=replace(spec.source, partitions=tuple(range(1_000))))
    assert isinstance(make_plan(part, make_facts((10,) * 20_000), Params()), Plan)


def most(check: Callable[[int, int], None]) -> int:
    def is_refused(count: int) -> bool:
        try:
            check(count, count)
        except RefusedError:
            return True
        return False

    return bisect(range(20_000), 0, key=is_refused) - 1


def widest_plan(plan: Plan, count: int) -> Plan:
    places = range(count)
    numbers = {f.name: LARGE for f in fields(PlannedPartition) if f.name not in {"partition", "at_end"}}
    at = tuple((p, LARGE) for p in places)
    return replace(
        plan,
        partitions=tuple(PlannedPartition(partition=p, **numbers) for p in places),
        target_starts=at,
        remote=tuple(RemoteRange(p, LARGE, LARGE) for p in places),
        lanes=tuple((p,) for p in places) if plan.lanes else (),
        target_stops=() if plan.lanes else at,
    )


def ended(verb: str) -> Recovery:
    world = World()
    world.feed(command(verb))
    return world.run_until(State.COMPLETED)


def test_what_ends_of_the_largest_copy_that_is_taken_fits_the_status_topic() -> None:
    """With long numbers, a lane for each partition, and offsets that the command named."""
    count, small = most(check_copy_size), ended("replay")
    assert small.plan is not None
    assert small.stop is not None
    places = range(count)
    named = dict.fromkeys(places, LARGE)
    spec, evidence = small.spec, [{"partition": p, "position": LARGE, "stop": LARGE} for p in places]
    source = replace(spec.source, partitions=tuple(places), start=AtOffsets(named), stop=AtOffsets(named))
    large = replace(
        small,
        spec=replace(spec, source=source),
        plan=widest_plan(small.plan, count),
        progress=replace(
            small.progress, partitions=tuple(PartitionProgress(p, LARGE, LARGE, "done", *(LARGE,) * 5) for p in places)
        ),
        stop=replace(small.stop, evidence={"partitions": evidence}),
        completeness=tuple(CompletenessRow(p, *(LARGE,) * 6, *(253_402_300_799_999,) * 2) for p in places),
        ledger_from=(LARGE,) * count,
        allowances=(Allowance(LARGE, LARGE),) * count,
    )
    size = len(STATUS.encode(large)[1])
    assert 0.8 * RECORD_BYTES_MOST < size < MAX_STATUS_RECORD_BYTES - 200_000


def test_what_ends_of_the_largest_comparison_that_is_taken_fits_the_status_topic() -> None:
    count, small = most(check_comparison_size), ended("verify")
    assert small.plan is not None
    named = dict.fromkeys(range(count), LARGE)
    spec, bounds = small.spec, AtOffsets(named)
    assert isinstance(spec.target, ComparedRef)
    source = replace(spec.source, partitions=tuple(named), start=bounds, stop=bounds)
    target = replace(spec.target, start=bounds)
    large = replace(small, spec=replace(spec, source=source, target=target), plan=widest_plan(small.plan, count))
    size = len(STATUS.encode(large)[1])
    assert 0.8 * RECORD_BYTES_MOST < size < MAX_STATUS_RECORD_BYTES - 200_000
