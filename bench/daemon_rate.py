"""Control records per second through a real daemon: brought by Faust, decoded, decided, journaled, answered.

Time runs from the first record handed to the producer to the last answer read (committed). The commands are `throttle`
of a recovery that waits for approval: each is accepted and changes its record, so each needs the journal. Signals are
of protected groups: each makes a verdict, and the page of metrics says that none was refused. They have no answer; the
answer to a command after them tells when they are done.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.bed import Bed
from bench.control import AnswerReader, ControlWriter, command, encoded, lag_signal, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample, Series
from recoveryd_sandbox.seed import seed

NAME = "daemon-rate"
_SIGNALS, _COMMANDS = 10_000, 1_000
_GROUPS, _PARTITIONS = 50, 8
_LIVE = "flights.live"
# A window is full after ten samples that are a second apart, so that later ones cost what they cost in the long run.
_WARM_REPORTS, _WARM_EVERY_S = 11, 1.1
_FIRST_END, _GROWS = 1_000_000, 100
_APART_S = 0.002  # reports of a group, whose times are in ms and no two the same
_RECOVERY = "waiting"
_DEADLINE_S = 120.0
_TRANSACTIONS = 100
_SIGNAL_ROW, _COMMAND_ROW, _MIXED_ROW = "lag signals", "commands", "both mixed"
_NO_ROOM = '"too_many"'
_REFUSED, _COVERAGE = "recoveryd_signals_rejected_total", "recoveryd_coverage_ratio"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    signals, commands = (_SIGNALS // 10, _COMMANDS // 10) if quick else (_SIGNALS, _COMMANDS)
    seed(bed.bootstrap, "bench.rate", limit=10_000)
    bed.create(_LIVE, _PARTITIONS)
    home = Home(bed, "rate")
    series = Series("/s")
    with leading(home, _settings()) as daemon:
        _make_waiting(bed, daemon)
        daemon.wait_for(lambda: len(daemon.metrics(_COVERAGE)) == _GROUPS, "look at the groups", _DEADLINE_S)
        live = _Live()
        live.warm(bed, daemon)
        for _ in range(repeat):
            for name, counts in {
                _SIGNAL_ROW: (signals, 1), _COMMAND_ROW: (0, commands), _MIXED_ROW: (signals, commands),
            }.items():  # fmt: skip
                series.add(name, sum(counts) / _pass(bed, daemon, live, *counts))
        live.check(daemon)
    bed.delete(_LIVE)
    parse = _parse_rate(bed, home, repeat)
    single = _single_rate(bed, home, repeat)
    rows = (
        Row(
            f"{signals:,} {_SIGNAL_ROW} of {_GROUPS} protected groups, a verdict each",
            series.sample(_SIGNAL_ROW),
            "consume and json.loads",
            parse,
        ),
        Row(
            f"{commands:,} {_COMMAND_ROW}, answered and journaled",
            series.sample(_COMMAND_ROW),
            "a transaction per record",
            single,
        ),
        Row(
            f"{signals:,} and {commands:,} {_MIXED_ROW}", series.sample(_MIXED_ROW), "a transaction per record", single
        ),
    )
    note = "one daemon process; commands that wait together share one journal transaction (group commit)"
    return [Report("Control records through decide and journal", rows, (note,))]


def _settings() -> dict[str, Any]:
    """The daemon knows the groups but looks at them itself only once: signals older than its own look are refused."""
    topics = [{"topic": _LIVE, "group": _name(number), "slo": "30s"} for number in range(_GROUPS)]
    monitor = {"interval": "1h", "topics": topics, "canary": {"enabled": False}}
    return {"approval": {"above_records": 1}, "monitor": monitor}


def _name(number: int) -> str:
    return f"group-{number}"


class _Live:
    """Reports about all groups in turn. Those made at once have times between the last ones and now."""

    def __init__(self) -> None:
        self._told = 0
        self._newest_ms = _now_ms()

    def reports(self, count: int) -> list[bytes]:
        time.sleep(max(0.0, count / _GROUPS * _APART_S - (_now_ms() - self._newest_ms) / 1000))
        since_ms, self._newest_ms = self._newest_ms, _now_ms()
        step_ms = (self._newest_ms - since_ms) / max(1, count)
        found = []
        for number in range(self._told, self._told + count):
            at_ms = since_ms + round((number - self._told + 1) * step_ms)
            end = _FIRST_END + number // _GROUPS * _GROWS
            found.append(encoded(lag_signal(_name(number % _GROUPS), _LIVE, _PARTITIONS, end, at_ms)))
        self._told += count
        return found

    def warm(self, bed: Bed, daemon: DaemonProcess) -> None:
        """Report each group until its windows are full."""
        writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
        for _ in range(_WARM_REPORTS):
            time.sleep(_WARM_EVERY_S)
            writer.send(self.reports(_GROUPS))

    def check(self, daemon: DaemonProcess) -> None:
        """Raises RuntimeError when a signal was refused, or a group has no verdict of all its partitions. What the
        controller has no room for between two of its steps has its verdict all the same.
        """
        refused = {labels: n for labels, n in daemon.metrics(_REFUSED).items() if n and _NO_ROOM not in labels}
        known = [share for share in daemon.metrics(_COVERAGE).values() if share == 1]
        if refused or len(known) < _GROUPS:
            raise RuntimeError(f"{len(known)} of {_GROUPS} groups were judged; refused samples: {refused}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _make_waiting(bed: Bed, daemon: DaemonProcess) -> None:
    """A recovery that needs no Spark and does not end: its plan waits for approval."""
    writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
    writer.send([encoded(replay(_RECOVERY, "bench.rate", "bench.rate.copy"))])
    daemon.wait_for(lambda: _state(daemon) == "awaiting_approval", "wait for approval", _DEADLINE_S)


def _state(daemon: DaemonProcess) -> str:
    status = daemon.status(_RECOVERY)
    return "" if status is None else str(status["state"])


def _pass(bed: Bed, daemon: DaemonProcess, live: _Live, signals: int, commands: int) -> float:
    """Seconds until all are decided and all answers are committed. The last record is a command."""
    orders = [command("throttle", _RECOVERY, {"limits": {"max_bytes_per_s": 1e6 + n}}) for n in range(commands)]
    values = _interleaved(live.reports(signals), [encoded(order) for order in orders])
    answers = AnswerReader(bed.bootstrap, daemon.home.names.events)
    writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
    began_s = time.monotonic()
    writer.send(values)
    found = answers.wait_for({order["id"] for order in orders}, _DEADLINE_S)
    elapsed_s = time.monotonic() - began_s
    answers.close()
    if set(found.values()) != {"accepted"}:
        raise RuntimeError(f"not all commands were accepted: {set(found.values())}")
    return elapsed_s


def _interleaved(signals: Sequence[bytes], commands: Sequence[bytes]) -> list[bytes]:
    """Commands spread evenly over the signals, one at the very end."""
    found: list[bytes] = []
    for number, order in enumerate(commands):
        found += signals[number * len(signals) // len(commands) : (number + 1) * len(signals) // len(commands)]
        found.append(order)
    return found


def _parse_rate(bed: Bed, home: Home, repeat: int) -> Sample:
    """An upper bound: the same records, only read and parsed."""
    rates = []
    total = bed.ends(home.names.control, 1)[0]
    for _ in range(repeat):
        consumer = Consumer(
            {"bootstrap.servers": bed.bootstrap, "group.id": "bench-parse", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(home.names.control, 0, 0)])
        left, began_s = total, time.monotonic()
        while left > 0:
            messages = consumer.consume(min(left, 10_000), 1.0)
            for message in messages:
                json.loads(message.value() or b"null")
            left -= len(messages)
        rates.append(total / (time.monotonic() - began_s))
        consumer.close()
    return Sample(tuple(rates), "/s")


def _single_rate(bed: Bed, home: Home, repeat: int) -> Sample:
    """The best that a daemon without group commit could do: status and answer of each command in a transaction of their
    own.
    """
    producer = Producer(
        {"bootstrap.servers": bed.bootstrap, "transactional.id": f"{home.scope}.single", "linger.ms": 0}
    )
    producer.init_transactions(_DEADLINE_S)
    rates = []
    status, answer = b"s" * 3_000, b"a" * 400
    for _ in range(repeat):
        began_s = time.monotonic()
        for number in range(_TRANSACTIONS):
            producer.begin_transaction()
            producer.produce(home.names.status, status, f"single-{number}")
            producer.produce(home.names.events, answer)
            producer.commit_transaction(_DEADLINE_S)
        rates.append(_TRANSACTIONS / (time.monotonic() - began_s))
    return Sample(tuple(rates), "/s")
