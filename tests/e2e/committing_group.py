"""A consumer group of somebody else, whose offsets the product is to set: what it committed, and what it finds."""

import itertools
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.e2e.clients import commit
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.stack import Stack

PARTITIONS, EACH = 3, 100
Place = tuple[int, str, int | None]
_numbers = itertools.count(1)


class Group:
    """A topic of 3 x 100 records, one per second, and a group that committed 50 on each partition, with metadata."""

    def __init__(self, bootstrap: str, stack: Stack) -> None:
        self.stack, self.bootstrap = stack, bootstrap
        self.id = f"g{next(_numbers)}"
        self.topic, self.group = f"{stack.mark}-{self.id}", f"{stack.mark}-{self.id}"
        fill_plain(bootstrap, self.topic, PARTITIONS, EACH)
        self.commit(*(TopicPartition(self.topic, p, 50, f"m{p}", 0) for p in range(PARTITIONS)))

    def commit(self, *offsets: TopicPartition) -> None:
        consumer = self.consumer()
        commit(consumer, offsets)
        consumer.close()

    def consumer(self, **more: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **more})

    def committed(self) -> dict[int, Place]:
        """Offset, metadata and leader epoch by partition."""
        consumer = self.consumer()
        found = consumer.committed([TopicPartition(self.topic, p) for p in range(PARTITIONS)], timeout=60)
        consumer.close()
        return {w.partition: (w.offset, w.metadata or "", w.leader_epoch) for w in found if w.offset >= 0}

    def reset(self, run: str, to: Any, **more: Any) -> str:
        data = {"reason": "r", "group": self.group, "to": to, "topics": [self.topic], **more}
        return self.stack.control.command("reset", run, data)

    def roll_back(self, run: str) -> str:
        return self.stack.control.command("rollback", run, {"reason": "it was wrong"})

    def rolled_back(self, run: str) -> Document:
        self.roll_back(run)
        return self.becomes(run, "rolled_back")

    def becomes(self, run: str, state: str) -> Document:
        """Also from a state in which a recovery would be over."""

        def look() -> Document | None:
            status = self.stack.follower.status(run)
            return status if status is not None and status["state"] == state else None

        found = self.stack.follower.wait(look, 120.0, f"{run} is {state}") or {}
        self.stack.follower.catch_up()
        return found

    def done(self, run: str) -> Document:
        return self.stack.follower.wait_state(run, "completed")


def at(offset: int) -> dict[int, Place]:
    return dict.fromkeys(range(PARTITIONS), (offset, "", None))


BEFORE: dict[int, Place] = {p: (50, f"m{p}", 0) for p in range(PARTITIONS)}
