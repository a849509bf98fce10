"""State that an application of Kafka Streams brought along on its disks.

Each instance tells its group, when it joins, up to which offset of their changelogs it has the state of which tasks. A
changelog that was made anew is shorter than that: such state is of an earlier run. Streams believes it, unless it is
exactly once, and goes on from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalTask:
    """What one instance has of a task: `offsets` is the sum over the changelogs of its stores."""

    client_id: str
    host: str
    part: str
    partition: int
    offsets: int


@dataclass(frozen=True, slots=True)
class StaleState:
    task: LocalTask
    ends: int

    def __str__(self) -> str:
        task = self.task
        return (
            f"{task.client_id} on {task.host} has state of task {task.part}_{task.partition} up to offset {task.offsets:,}, "
            f"and its changelogs end at {self.ends:,}"
        )


def find_stale(tasks: Iterable[LocalTask], ends: Mapping[str, Mapping[int, int]]) -> Sequence[StaleState]:
    """`ends` of all changelogs of the application by topic and partition: that sum is the most that any task of the
    partition can have, whichever changelogs it has.
    """
    found = []
    for task in tasks:
        most = sum(partitions.get(task.partition, 0) for partitions in ends.values())
        if task.offsets > most:
            found.append(StaleState(task, most))
    return found
