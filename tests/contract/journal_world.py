"""A model of a broker that loses markers, and of leaders that come and go, for the journal's session: what chance gives
them stands in `World.chance`. Others may write to the journal's topics too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from recoveryd.adapters.kafka.journal_judgement import Acknowledged, Judgement, judge
from recoveryd.adapters.kafka.journal_session import JournalSession
from recoveryd.adapters.kafka.journal_stamps import HiddenRecord, Transaction, make_copy, read_found, read_stamp
from recoveryd.adapters.kafka.journal_tails import Place, make_tail
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord, SessionLost, Unsettled
from recoveryd.errors import ClusterProblem

A, B, C = ("a", 0), ("b", 0), ("c", 0)
OTHERS, OURS = 0, 1  # producers
TRIES = 200
FEW = 20
NOBODYS = b"-1"  # the value of what is no batch


def record(topic: str, value: bytes = b"") -> OutgoingKafkaRecord:
    return OutgoingKafkaRecord(topic, None, value)


class Killed(Exception):  # noqa: N818  (named for what happened)
    """The daemon is gone."""


@dataclass
class Entry:
    record: OutgoingKafkaRecord | None  # None = a marker
    state: str  # open, seen, aborted
    producer: int


@dataclass
class World:
    """`chance(n)` is a number below n; 0 is what usually happens. `troubles`: what may happen besides."""

    chance: Callable[[int], int]
    troubles: frozenset[str] = frozenset()
    logs: dict[Place, list[Entry]] = field(default_factory=lambda: {A: [], B: [], C: []})
    epoch: int = 0
    producer: int = OURS
    under_way: set[Place] = field(default_factory=set)

    def take(self) -> int:
        self.end("aborted")
        self.epoch += 1
        return self.epoch

    def end(self, how: str) -> None:
        for place in sorted(self.under_way):
            if self.chance(4) != 1:  # else the marker is lost
                self._mark(place, how, self.producer)
        self.under_way = set()

    def append(self, one: OutgoingKafkaRecord) -> int:
        place = one.topic, 0
        self.under_way.add(place)
        self.logs[place].append(Entry(one, "open", self.producer))
        return len(self.logs[place]) - 1

    def disturb(self) -> None:
        """Others write to the journal's topics; `recoveryctl doctor` does, and aborts it."""
        if self.troubles:
            what = self.chance(12)
            if what == 3 and "probes" in self.troubles:
                for place in self.logs:
                    self._write_of_others(place, "aborted")
            if what == 4 and "plain" in self.troubles:
                for place, log in self.logs.items():
                    log.append(Entry(record(place[0], NOBODYS), "seen", OTHERS))
            if what == 5 and "committed" in self.troubles:
                for place in self.logs:
                    self._write_of_others(place, "seen")
            if what == 6 and "expiry" in self.troubles and not self.under_way:  # after a week without a transaction
                self.producer, self.epoch = self.producer + 1, self.epoch + 1

    def end_others(self) -> None:
        for place in self.logs:
            self._mark(place, "aborted", OTHERS)

    def abort_hanging(self) -> None:
        """As an administrator does with `kafka-transactions.sh`."""
        for place, log in self.logs.items():
            for producer in {entry.producer for entry in log if entry.state == "open"} - {OTHERS, self.producer}:
                self._mark(place, "aborted", producer)

    def is_visible(self, place: Place, offset: int) -> bool:
        return offset < self.stable(place) and self.logs[place][offset].state == "seen"

    def seen(self, place: Place) -> list[int]:
        values = [
            int(entry.record.value or NOBODYS)
            for offset, entry in enumerate(self.logs[place])
            if entry.record is not None and self.is_visible(place, offset)
        ]
        return [value for value in values if value >= 0]

    def stable(self, place: Place) -> int:
        log = self.logs[place]
        return next((offset for offset, entry in enumerate(log) if entry.state == "open"), len(log))

    def _write_of_others(self, place: Place, how: str) -> None:
        self.logs[place].append(Entry(record(place[0], NOBODYS), how, OTHERS))
        self._mark(place, how, OTHERS)

    def _mark(self, place: Place, how: str, producer: int) -> None:
        for entry in self.logs[place]:
            entry.state = how if (entry.state, entry.producer) == ("open", producer) else entry.state
        self.logs[place].append(Entry(None, how, producer))


@dataclass
class Log:
    world: World
    place: Place
    start: int = 0

    @property
    def stable(self) -> int:
        return self.world.stable(self.place)

    @property
    def end(self) -> int:
        return len(self.world.logs[self.place])

    def seen(self, start: int, stop: int) -> list[HiddenRecord]:
        return [each for each in self.all(start, stop) if self.world.is_visible(self.place, each.offset)]

    def all(self, start: int, stop: int) -> list[HiddenRecord]:
        log = self.world.logs[self.place]
        return [read_found(o, log[o].record.headers) for o in range(start, stop) if log[o].record is not None]


class Evidence:
    def __init__(self, world: World) -> None:
        self._world = world

    def end(self) -> int:
        return 0

    def other_leader_since(self, _offset: int) -> str | None:
        return None

    def is_seen(self, transaction: Transaction, tried: Sequence[Marks]) -> bool:
        assert len(tried) < FEW, "however often it was tried"
        return any(
            stamp is not None and stamp.transaction == transaction and self._world.is_visible(place, offset)
            for marks in tried
            for place, offset in marks.items()
            for stamp in [read_stamp(self._world.logs[place][offset].record.headers)]
        )

    def judge(self, acknowledged: Acknowledged, given_up: tuple[str, int] | None = None) -> Judgement:
        return judge([make_tail(place, Log(self._world, place)) for place in self._world.logs], acknowledged, given_up)

    def make_copies(self, lost: Sequence[tuple[Place, HiddenRecord]]) -> list[OutgoingKafkaRecord]:
        return [make_copy(found, self._world.logs[place][found.offset].record) for place, found in lost]

    def commit_landed(self, acknowledged: Acknowledged) -> None:
        world = self._world
        world.take()
        world.under_way = set(self.judge(acknowledged).commit)
        fate = world.chance(6) if "half" in world.troubles else 0
        if fate == 1:  # somebody takes the id before the commit is asked for
            opened(world)
        elif fate != 2:
            world.end("seen")
        if fate == 3:
            raise Killed
        if fate:
            raise ClusterProblem("no answer")


class Writer:
    """A client. What chance gives it: an acknowledged commit, an abort, a lost client with or without a doubt,
    death.
    """

    is_opening = is_outdated = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._epoch = 0
        self._has_aborted = False
        self.marks: Marks = {}

    def open(self, _deadline_s: float) -> None:
        self._epoch = self._world.take()

    def write(
        self, records: Sequence[OutgoingKafkaRecord], token: object, again: Callable[[], Sequence[OutgoingKafkaRecord]]
    ) -> Marks:
        world, self.marks = self._world, {}
        while True:
            if self._has_aborted:
                records = again()
                self._has_aborted = False
            self._let_visit()
            self._check()
            fate = world.chance(10)
            reach = len(records) if fate in {0, 1, 2, 3, 4} else 1 + world.chance(len(records))
            self.marks = marks = {(each.topic, 0): world.append(each) for each in records[:reach]}
            self._let_visit()
            if self._epoch != world.epoch and fate < 5:  # the visitor aborted it, perhaps without markers
                raise SessionLost("fenced", Unsettled(token, marks))
            self._check()
            if fate in {0, 1, 2}:  # the commit is done; answered, answered late, or not answered before a death
                world.end("seen")
                if fate == 1:
                    raise SessionLost("no answer", Unsettled(token, marks))
                if fate == 2:
                    raise Killed
                return marks
            if fate == 3:  # the commit did not arrive, and who takes the id next aborts
                raise SessionLost("no answer", Unsettled(token, marks))
            if fate in {4, 5}:
                world.end("aborted")
                self._has_aborted = True
            elif fate == 6:
                raise SessionLost("fenced", None)
            elif fate == 7:
                raise Killed
            else:
                world.end("aborted")
                if fate == 8:
                    raise Killed
                raise SessionLost("timed out", None)

    def end_open(self, places: Sequence[Place], headers: Sequence[tuple[str, bytes | None]]) -> None:
        self._check()
        fate = self._world.chance(6) if "half" in self._world.troubles else 0
        self._world.under_way = set(places)
        if fate == 1:  # before a record arrived
            raise Killed
        for place in places:
            self._world.append(replace(record(place[0], NOBODYS), headers=tuple(headers)))
        if fate == 2:
            raise Killed
        self._world.end("aborted")

    def close(self) -> None:
        """Nothing."""

    def _let_visit(self) -> None:
        """Another daemon may open the journal, and write nothing."""
        self._world.disturb()
        if self._world.chance(12) == 7:
            opened(self._world)

    def _check(self) -> None:
        if self._epoch != self._world.epoch:
            raise SessionLost("fenced", None)


def session_in(world: World, make_writer: Callable[[], Writer] | None = None) -> JournalSession:
    return JournalSession(make_writer or (lambda: Writer(world)), Evidence(world), A, 60, 60)  # type: ignore[arg-type,return-value]


def opened(world: World) -> JournalSession:
    session = session_in(world)
    _until_it_works(world, session.open)
    return session


def written(world: World, session: JournalSession, records: Sequence[OutgoingKafkaRecord], token: object) -> None:
    _until_it_works(world, lambda: session.write(lambda _mark: records, token))


def _until_it_works(world: World, call: Callable[[], None]) -> None:
    for _ in range(TRIES):
        try:
            return call()
        except ClusterProblem as problem:
            if "kafka-transactions.sh" in problem.hint:
                world.abort_hanging()
    raise AssertionError("it never works")
