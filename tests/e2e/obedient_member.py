"""A consumer of somebody else, as its own process: it obeys holds by `recoveryd.client` and writes down each record
that it is handed, each call of its drain, and each commit it makes.

    python -m tests.e2e.obedient_member '{"config": {...}, "topics": [...], "prefix": "e1.", "log": "FILE"}'

It handles records a moment after it got them, as an application with work in flight does. It ends at SIGTERM.
"""

import json
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from recoveryd.client import HoldAwareConsumer

IN_FLIGHT = 5


class Application:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.log = Path(settings["log"]).open("a", encoding="utf-8")  # noqa: SIM115
        self.in_flight: deque[tuple[str, int, int]] = deque()
        self.ended = False
        self.consumer = HoldAwareConsumer(settings["config"], prefix=settings["prefix"], drain=self.drain)
        self.consumer.subscribe(
            settings["topics"],
            on_assign=lambda _consumer, partitions: self.note("assigned", *[p.partition for p in partitions]),
            on_revoke=lambda _consumer, _partitions: self.finish_and_commit(),
        )

    def note(self, what: str, *more: object) -> None:
        print(json.dumps([time.time(), what, *more]), file=self.log, flush=True)

    def finish(self) -> None:
        while self.in_flight:
            self.note("handled", *self.in_flight.popleft())

    def finish_and_commit(self) -> None:
        self.finish()
        self.commit()

    def commit(self) -> None:
        held = self.consumer.assignment()
        at = [TopicPartition(p.topic, p.partition, p.offset) for p in self.consumer.position(held) if p.offset >= 0]
        if at:
            self.consumer.commit(offsets=at, asynchronous=False)

    def drain(self, _partitions: list[TopicPartition]) -> bool:
        self.finish()
        self.note("drained")
        return True

    def run(self) -> None:
        while not self.ended:
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().retriable(), message.error()
                continue
            self.note("taken", message.topic(), message.partition(), message.offset())
            self.in_flight.append((message.topic(), message.partition(), message.offset()))
            if len(self.in_flight) > IN_FLIGHT:
                self.note("handled", *self.in_flight.popleft())
            time.sleep(0.002)  # the pace of the application, not a wait for something
        self.finish_and_commit()
        self.consumer.close()
        self.note("closed")

    def end(self) -> None:
        self.ended = True


if __name__ == "__main__":
    application = Application(json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda _number, _frame: application.end())
    application.run()
