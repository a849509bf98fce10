"""Versions of an application that are exchanged while records keep coming, and the judge of what came of it: an input
that was counted once is one number in the output, and the numbers of a key have neither a gap nor a second time.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from recoveryd_sandbox.streams_app import AppSpec
from tests.e2e.background import Background
from tests.e2e.clients import writer
from tests.e2e.murmur2 import partition_of
from tests.e2e.stack import Stack
from tests.streams.counting import CountingWorld, unit_of
from tests.streams.data import Pairs, await_values, make_topics, values

KEYS, PARTITIONS = 5, 2
_ARRIVE_S = 30.0


class Feeder(Background):
    """Writes to the input all the time; `written` by key."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.bootstrap, self.topic = bootstrap, topic
        self.written = dict.fromkeys((f"k{number}" for number in range(KEYS)), 0)

    @property
    def total(self) -> int:
        return sum(self.written.values())

    def run(self) -> None:
        producer = writer(self.bootstrap)
        for number in itertools.count():
            if self.ended.wait(0.1):
                break
            key = f"k{number % KEYS}"
            producer.produce(self.topic, b"x", key.encode(), partition=partition_of(key.encode(), PARTITIONS))
            producer.poll(0)
            self.written[key] += 1
        assert producer.flush(60.0) == 0


class Exchange(CountingWorld):
    """The first of `versions` runs already; each later one has the roles `<version>-staged` and `<version>-tail`
    besides. `roles`: what is run as each unit.
    """

    def __init__(self, bootstrap: str, prefix: str, folder: Path, first: str, *later: str) -> None:
        super().__init__(bootstrap, prefix, folder, is_exactly_once=True, store="counts")
        self.roles: dict[str, AppSpec] = {first: self.spec}
        for version in later:
            live = replace(self.spec, application_id=f"{prefix}{version}")
            staged = replace(live, output=f"{prefix}staged-of-{version}")
            self.roles |= {
                version: live,
                f"{version}-staged": staged,
                f"{version}-tail": replace(staged, inputs=(f"{prefix}tail-of-{version}",)),
            }
        self.versions = (first, *later)

    def make_topics(self) -> None:
        """Without tails, which are made when they are needed."""
        outputs = (spec.output for spec in self.roles.values())
        make_topics(self.bootstrap, dict.fromkeys((self.input, *outputs), PARTITIONS))

    def units(self) -> dict[str, Any]:
        return {name: unit_of(spec) for name, spec in self.roles.items()}

    @property
    def tails(self) -> set[str]:
        return {spec.inputs[0] for name, spec in self.roles.items() if name.endswith("-tail")}

    def upgrade(self, stack: Stack, run: str, unit: str, to_unit: str, **more: Any) -> None:
        """The command, with a short `ready`. `more`: other fields; None leaves one out."""
        data = {
            "reason": "a newer version",
            "unit": unit,
            "to_unit": to_unit,
            "mode": "online",
            "staged_unit": f"{to_unit}-staged",
            "tail_unit": f"{to_unit}-tail",
            "ready": {"lag_seconds": 30, "hold": "5s"},
            **more,
        }
        stack.control.command("upgrade", run, {name: value for name, value in data.items() if value is not None})

    def came_out(self) -> dict[str, list[int]]:
        """By key, the counts that readers see, in their order."""
        return _numbers(values(self.bootstrap, self.output))

    def count_out(self) -> int:
        return sum(map(len, self.came_out().values()))

    def await_count(self, count: int, usual_s: float, told: str) -> None:
        """Until that many came out."""
        await_values(
            self.bootstrap,
            self.output,
            lambda found: len(found) >= count,
            usual_s,
            lambda found: f"{told}, have {_last_of(_numbers(found))}",
        )

    def await_last(self, written: Mapping[str, int]) -> dict[str, list[int]]:
        """What came out, once the last count of each key has."""

        def is_there(pairs: Pairs) -> bool:
            found = _numbers(pairs)
            return all(count in found.get(key, [0]) for key, count in written.items())

        await_values(
            self.bootstrap,
            self.output,
            is_there,
            _ARRIVE_S,
            lambda found: f"wanted {written}, have {_last_of(_numbers(found))}",
        )
        return self.came_out()

    def counted_once(self, written: Mapping[str, int]) -> None:
        """What comes out for a key is 1, 2, 3 and so on: nothing was left out, and nothing is there twice."""
        wanted = {key: list(range(1, count + 1)) for key, count in written.items()}
        self.await_count(sum(written.values()), _ARRIVE_S, f"wanted {written}")
        assert self.came_out() == wanted


class ByHand(Exchange):
    """`old`, and `new` as it is started in its three roles, by a person."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        super().__init__(bootstrap, prefix, folder, "old", "next")
        self.old = self.program("old", self.roles["old"])
        self.new = self.program("new", self.roles["next-staged"])

    def run_as(self, role: str) -> None:
        self.new.spec = self.roles[role]
        self.new.start()

    @contextmanager
    def programs(self) -> Iterator[None]:
        """The old version runs first, and none is left running."""
        with ExitStack() as running:
            running.callback(self.new.kill)
            running.enter_context(self.old)
            yield


def exchange_stack(bootstrap: str, folder: Path, world: Exchange) -> Stack:
    """Looks at the lag often enough that a short `ready` is one."""
    return Stack(bootstrap, folder, {"units": world.units(), "monitor": {"interval": "3s"}})


def _numbers(pairs: Pairs) -> dict[str, list[int]]:
    """By key, in their order."""
    found: dict[str, list[int]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(int(value or 0))
    return found


def _last_of(found: Mapping[str, list[int]]) -> dict[str, tuple[int, int]]:
    """By key, how many came out and the highest of them."""
    return {key: (len(numbers), max(numbers)) for key, numbers in found.items()}


def times_beyond_one(found: Mapping[str, list[int]]) -> dict[tuple[str, int], int]:
    """By key and number, how often it came out, of those that did more than once."""
    often = Counter((key, number) for key, numbers in found.items() for number in numbers)
    return {place: times for place, times in often.items() if times > 1}
