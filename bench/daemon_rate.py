"""Control records per second through a real daemon: brought by Faust, decoded, decided, journaled, answered.

Time runs from the first record handed to the producer to the last answer read (committed). The commands are `throttle`
of a recovery that waits for approval: each is accepted and changes its record, so each needs the journal. Signals have
no answer; the answer to a command after them tells when they are done.
"""

import json
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.bed import Bed
from bench.control import AnswerReader, ControlWriter, command, encoded, lag_signal, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample, Series
from recoveryd_sandbox.seed import seed

NAME = "daemon-rate"
_SIGNALS, _COMMANDS = 10_000, 1_000
_SIGNAL_PARTITIONS = 8
_RECOVERY = "waiting"
_DEADLINE_S = 120.0
_TRANSACTIONS = 100
_SIGNAL_ROW, _COMMAND_ROW, _MIXED_ROW = "lag signals", "commands", "both mixed"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    signals, commands = (_SIGNALS // 10, _COMMANDS // 10) if quick else (_SIGNALS, _COMMANDS)
    seed(bed.bootstrap, "bench.rate", limit=10_000)
    home = Home(bed, "rate")
    series = Series("/s")
    with leading(home, {"approval": {"above_records": 1}}) as daemon:
        _make_waiting(bed, daemon)
        for _ in range(repeat):
            for name, counts in {
                _SIGNAL_ROW: (signals, 1), _COMMAND_ROW: (0, commands), _MIXED_ROW: (signals, commands),
            }.items():  # fmt: skip
                series.add(name, sum(counts) / _pass(bed, daemon, *counts))
    parse = _parse_rate(bed, home, repeat)
    single = _single_rate(bed, home, repeat)
    rows = (
        Row(f"{signals:,} {_SIGNAL_ROW}", series.sample(_SIGNAL_ROW), "consume and json.loads", parse),
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


def _make_waiting(bed: Bed, daemon: DaemonProcess) -> None:
    """A recovery that needs no Spark and does not end: its plan waits for approval."""
    writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
    writer.send([encoded(replay(_RECOVERY, "bench.rate", "bench.rate.copy"))])
    daemon.wait_for(lambda: _state(daemon) == "awaiting_approval", "wait for approval", _DEADLINE_S)


def _state(daemon: DaemonProcess) -> str:
    status = daemon.status(_RECOVERY)
    return "" if status is None else str(status["state"])


def _pass(bed: Bed, daemon: DaemonProcess, signals: int, commands: int) -> float:
    """Seconds until all are decided and all answers are committed. The last record is a command."""
    orders = [command("throttle", _RECOVERY, {"limits": {"max_bytes_per_s": 1e6 + n}}) for n in range(commands)]
    values = _interleaved([encoded(lag_signal(f"group-{n % 50}", "flights.live", _SIGNAL_PARTITIONS,
        n)) for n in range(signals)],
                          [encoded(order) for order in orders])  # fmt: skip
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
