"""How far a replay reached in the time of its records: told per partition when it stops, also after a daemon
was lost.
"""

import random

import pytest

from recoveryd.kernel.times import format_time_ms
from tests.builders.history import Draft, create_topics, produce
from tests.e2e.asking import await_progress
from tests.e2e.clients import writer
from tests.e2e.data import BASE_MS
from tests.e2e.stack import Stack, completed_ranges

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

PARTITIONS, EACH = 2, 4_000


def fill_shuffled(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """Records whose times are in no order; the times by partition, in the order of offsets."""
    create_topics(bootstrap, {topic: PARTITIONS})
    chance, producer = random.Random(7), writer(bootstrap, linger_ms=20)
    times = {p: [BASE_MS + p + chance.randrange(10**9) for _ in range(EACH)] for p in range(PARTITIONS)}
    for partition, found in times.items():
        for number, time_ms in enumerate(found):
            produce(producer, topic, Draft(partition, b"k", str(number).encode(), (), time_ms))
    assert producer.flush(120) == 0
    return times


@pytest.mark.scenario("S-WIKI-5c")
def test_the_smallest_and_the_largest_time_of_what_was_copied_is_told_when_it_stops(stack: Stack) -> None:
    source, run = f"{stack.mark}-shuffled", "times"
    times = fill_shuffled(stack.bootstrap, source)
    first = stack.daemon("first")
    stack.control.replay(run, source, f"{source}-copy", target_create=True, limits={"max_records_per_s": 200})
    stack.follower.wait_state(run, "running")
    await_progress(stack, run, 200)
    first.kill()
    with stack.running():
        await_progress(stack, run, 600)
        stack.control.command("stop", run)
        stopped = stack.follower.wait_state(run, "stopped")
    ranges = completed_ranges(stopped)
    assert sum(stop - start for start, stop in ranges.values()) >= 600
    assert {row["partition"]: (row["min_time"], row["max_time"]) for row in stopped["completeness"]} == {
        partition: (
            format_time_ms(min(times[partition][start:stop])),
            format_time_ms(max(times[partition][start:stop])),
        )
        for partition, (start, stop) in ranges.items()
        if stop > start
    }
