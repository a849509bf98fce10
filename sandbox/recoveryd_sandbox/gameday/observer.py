"""The observer: a process of its own that shares nothing with the daemon. Measures what an application would notice,
once a second, as JSON lines on stdout.

It measures the acknowledgement times of its own tiny records (acks=all) on a topic of its own, and the time lag of the
protected group: how long ago the log ended at the group's position, by its own history of log ends. A record without an
answer counts with the time it has waited.
"""

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

TOPIC = "observer.canary"
_RECORDS_PER_S = 50
_ANSWER_S = 5.0
_SETTLED_S = 2.0  # a second is reported this long after it ended, so that its records had time to be acknowledged
_HISTORY_MOST = 3_600
_OLD_LOOK_S = 3.0


class Canary:
    """Sends at a steady pace from a thread; `take` returns the sorted acknowledgement times of the records sent in one
    second.
    """

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "gameday-observer",
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._lock = threading.Lock()
        self._sent: dict[int, float] = {}
        self._waits: dict[int, list[float]] = {}
        self._number = 0
        threading.Thread(target=self._run, name="canary", daemon=True).start()

    def take(self, second: int) -> list[float]:
        """Acknowledgement times in s of the records sent in this second of the wall clock; the time so far for those
        without an answer.
        """
        now_s = time.time()
        with self._lock:
            waits = self._waits.pop(second, [])
            waits += [now_s - sent_s for sent_s in self._sent.values() if int(sent_s) == second]
        return sorted(waits)

    def _run(self) -> None:
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + 1 / _RECORDS_PER_S, time.monotonic() - 1.0)
            while (left_s := due_s - time.monotonic()) > 0:
                self._producer.poll(left_s)
            self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        number, sent_s = self._number, time.time()
        self._number += 1
        with self._lock:
            self._sent[number] = sent_s

        def answered(_error: KafkaError | None, _message: Message) -> None:
            now_s = time.time()
            with self._lock:
                del self._sent[number]
                self._waits.setdefault(int(sent_s), []).append(now_s - sent_s)
                for old in [s for s in self._waits if s < now_s - 60]:
                    del self._waits[old]

        with contextlib.suppress(BufferError):
            self._producer.produce(TOPIC, b"x" * 64, on_delivery=answered)


class GroupWatch:
    """The group's position, and when the log ended there; sampled once a second from a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        # It never subscribes, so it never joins the group. An admin client would end the process when a coordinator is
        # not ready.
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "gameday-observer", "log_level": 0}
        )
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._ends: dict[int, deque[tuple[float, int]]] = {n: deque(maxlen=_HISTORY_MOST) for n in range(partitions)}
        self._looks: deque[tuple[float, float | None]] = deque(maxlen=60)
        threading.Thread(target=self._run, name="group", daemon=True).start()

    def take(self, second: int) -> float | None:
        """The lag in this second of the wall clock, by the newest sample before its end; None when there was none for
        long, or it failed.
        """
        known = [lag_s for at_s, lag_s in tuple(self._looks) if second - _OLD_LOOK_S <= at_s < second + 1]
        return known[-1] if known else None

    def _run(self) -> None:
        while True:
            began_s = time.time()
            lag_s = self._look()
            self._looks.append((began_s, None if lag_s is None else round(lag_s, 3)))
            time.sleep(max(0.1, began_s + 1 - time.time()))

    def _look(self) -> float | None:
        """The time lag of the worst partition; None when a position or end is not known. Positions are asked for before
        ends.
        """
        try:
            stands = self._committed()
            asked_s = time.time()
            ends = self._log_ends()
        except KafkaException:
            return None
        worst_s = 0.0
        for number, history in self._ends.items():
            if number not in ends or number not in stands:
                return None
            history.append((asked_s, ends[number]))
            worst_s = max(worst_s, _behind_s(history, stands[number]))
        return worst_s

    def _committed(self) -> dict[int, int]:
        found = self._consumer.committed(self._places, timeout=_ANSWER_S)
        return {place.partition: place.offset for place in found if place.error is None and place.offset >= 0}

    def _log_ends(self) -> Mapping[int, int]:
        return {
            place.partition: self._consumer.get_watermark_offsets(place, timeout=_ANSWER_S)[1] for place in self._places
        }


def _behind_s(history: deque[tuple[float, int]], stand: int) -> float:
    """How long before the last sample the log ended at `stand`, interpolated; if that was before the first sample, the
    length of the history.
    """
    now_s, end = history[-1]
    if stand >= end:
        return 0.0
    later_s, later = now_s, end
    for at_s, offset in reversed(history):
        if offset <= stand:
            return now_s - (at_s + (later_s - at_s) * (stand - offset) / max(1, later - offset))
        later_s, later = at_s, offset
    return now_s - history[0][0]


def main() -> int:
    """Runs until its parent ends it or is gone."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    options = parser.parse_args()
    canary = Canary(options.bootstrap)
    group = GroupWatch(options.bootstrap, options.group, options.topic, options.partitions)
    parent = os.getppid()
    second = int(time.time()) + 1
    while os.getppid() == parent:
        time.sleep(max(0.0, second + 1 + _SETTLED_S - time.time()))
        waits = canary.take(second)
        line = {
            "at_s": second,
            "p99_s": _quantile(waits, 0.99),
            "p50_s": _quantile(waits, 0.5),
            "lag_s": group.take(second),
            "waits_s": [round(wait_s, 6) for wait_s in waits],
        }
        print(json.dumps(line), flush=True)
        second += 1
    return 0


def _quantile(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 6) if ordered else None


if __name__ == "__main__":
    sys.exit(main())
