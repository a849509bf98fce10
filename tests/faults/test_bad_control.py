"""Row 18: control records as bad as Kafka allows, also random ones by Hypothesis, against a running daemon: each is
answered or dead-lettered, none stops it.
"""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.builders.odd_headers import write_odd
from tests.e2e.control import make_command
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e, pytest.mark.faults]

BATCH = 20


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


def good() -> dict[str, Any]:
    return make_command(
        "replay",
        "never",
        {"source": {"topic": "no-such", "from": "earliest", "to": "latest"}, "target": {"topic": "nor-this"}},
    )


def with_data(**changes: Any) -> bytes:
    event = good()
    event["data"].update(changes)
    return json.dumps(event).encode()


def without(name: str) -> bytes:
    return json.dumps({k: v for k, v in good().items() if k != name}).encode()


def changed(**changes: Any) -> bytes:
    return json.dumps({**good(), **changes}).encode()


UNREADABLE: dict[str, bytes | None] = {
    "a tombstone": None,
    "nothing": b"",
    "bad JSON": b"{",
    "no JSON at all": bytes(range(256)),
    "not UTF-8": b'{"specversion":"1.0","id":"\xff\xfe"}',
    "a list": b"[]",
    "a number": b"17",
    "a string": b'"replay"',
    "NaN": b'{"specversion":"1.0","id":"a","source":"b","type":"io.recoveryd.command.replay.v1","subject":"x","data":{"reason":NaN}}',
    "Infinity": b'{"specversion":"1.0","id":"a","source":"b","type":"io.recoveryd.command.replay.v1","subject":"x","data":{"reason":Infinity}}',
    "a key twice": b'{"specversion":"1.0","id":"a","id":"b","source":"b","type":"io.recoveryd.command.pause.v1","subject":"x","data":{"reason":"r"}}',
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a huge number": b'{"specversion":"1.0","id":' + b"9" * 10_000 + b"}",
    "as large as the topic takes": b'{"pad":"' + b"x" * 2_000_000 + b'"}',
    "without id": without("id"),
    "without source": without("source"),
    "without type": without("type"),
    "an id that is no text": changed(id=7),
}
REFUSED: dict[str, bytes] = {
    "without specversion": without("specversion"),
    "another specversion": changed(specversion="0.3"),
    "an unknown verb": changed(type="io.recoveryd.command.explode.v1"),
    "another version": changed(type="io.recoveryd.command.replay.v2"),
    "an unknown attribute of data": with_data(sorce={}),
    "no reason": with_data(reason=""),
    "a reason too long": with_data(reason="x" * 501),
    "a subject that is no id": changed(subject="Not An Id"),
    "no subject": without("subject"),
    "no data": without("data"),
    "data that is a list": changed(data=[]),
    "a time without zone": with_data(source={"topic": "a", "from": "2026-11-21T06:00:00", "to": "latest"}),
    "a negative offset": with_data(source={"topic": "a", "from": {"offset": -5}, "to": "latest"}),
    "an offset that is no number": with_data(source={"topic": "a", "from": {"offset": True}, "to": "latest"}),
    "an internal topic": with_data(target={"topic": "__consumer_offsets"}),
    "source as target": with_data(target={"topic": "no-such"}),
    "an unknown mapping": with_data(target={"topic": "b", "mapping": "random"}),
    "an unknown cluster": with_data(source={"topic": "a", "cluster": "mars", "from": "earliest", "to": "latest"}),
    "limits below zero": with_data(limits={"max_records_per_s": -1}),
    "others that is a list": with_data(
        source={"topic": "a", "from": {"offsets": {"0": 1}, "others": []}, "to": "latest"}
    ),
    "a bomb of partitions": with_data(source={"topic": "a", "partitions": [2**63], "from": "earliest", "to": "latest"}),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_row_18_what_cannot_be_read_goes_to_the_dead_letters_as_it_was(stack: Stack, name: str) -> None:
    value = UNREADABLE[name]
    offset = stack.control.raw(value, b"some key", [("h", b"1"), ("h", None)])
    event = stack.follower.wait(lambda: unreadable(stack, offset), 15, f"an event about offset {offset}")
    assert event["data"]["partition"] == 0
    assert event["data"]["code"].startswith("RCV-1")
    [letter] = stack.follower.wait(lambda: letters(stack, offset), 15, "the dead letter")
    assert (letter.key, letter.value) == (b"some key", value)
    assert letter.headers[:2] == (("h", b"1"), ("h", None))


def test_row_18_a_large_key_that_is_small_when_compressed_keeps_no_daemon_from_leading(
    stack: Stack, daemon: DaemonProcess
) -> None:
    """The control topic bounds the compressed size only. The daemons of the tests below read it again."""
    size = 9_000_000
    sent: list[int | None] = []
    producer = Producer(
        {"bootstrap.servers": stack.bootstrap, "compression.type": "gzip", "message.max.bytes": 20_000_000}
    )
    producer.produce(
        f"{stack.prefix}control.v1", b"{", b"k" * size, on_delivery=lambda _, message: sent.append(message.offset())
    )
    assert producer.flush(60) == 0
    [letter] = stack.follower.wait(lambda: letters(stack, sent[0] or 0), 15, "the dead letter")
    assert (letter.key, letter.value) == (b"k" * 65_536, b"{")
    assert ("recoveryd-original-key-bytes", str(size).encode()) in letter.headers
    assert daemon.is_running()


def test_row_18_a_record_that_nobody_can_unpack_keeps_no_daemon_from_leading(
    stack: Stack, daemon: DaemonProcess
) -> None:
    """120 MB of zeros are ten kilobytes on the topic, and more than the client library unpacks."""
    offset = write_huge(stack)
    [letter] = stack.follower.wait(lambda: letters(stack, offset), 60, "the dead letter")
    assert (letter.key, letter.value) == (None, None)
    told = stack.follower.wait(lambda: unreadable(stack, offset), 15, "its event")
    assert "cannot be read" in told["data"]["error"]
    event = {**good(), "id": uuid.uuid4().hex}
    stack.control.raw(json.dumps(event).encode())
    assert stack.follower.wait_answer(event["id"], 30)["data"]["code"] == "RCV-2001"
    daemon.kill()
    unread = write_huge(stack)
    daemon.start()
    daemon.await_leader()
    assert stack.follower.wait(lambda: letters(stack, unread), 60, "the other dead letter")
    later = {**good(), "id": uuid.uuid4().hex}
    stack.control.raw(json.dumps(later).encode())
    assert stack.follower.wait_answer(later["id"], 30)["data"]["code"] == "RCV-2001"
    assert len(letters(stack, offset)) == len(letters(stack, unread)) == 1


def write_huge(stack: Stack) -> int:
    sent: list[int | None] = []
    producer = Producer(
        {"bootstrap.servers": stack.bootstrap, "compression.type": "zstd", "message.max.bytes": 200_000_000}
    )
    producer.produce(
        f"{stack.prefix}control.v1", bytes(120_000_000), on_delivery=lambda _, message: sent.append(message.offset())
    )
    assert producer.flush(60) == 0
    assert sent[0] is not None
    return sent[0]


@pytest.mark.parametrize("name", REFUSED)
def test_row_18_what_can_be_read_and_not_be_done_is_refused_with_code_and_hint(stack: Stack, name: str) -> None:
    event = {**json.loads(REFUSED[name]), "id": uuid.uuid4().hex}
    stack.control.raw(json.dumps(event).encode())
    answer = stack.follower.wait_answer(event["id"], 15)
    assert answer["type"] == "io.recoveryd.event.command_rejected.v1"
    assert answer["data"]["code"].startswith("RCV-")
    assert answer["data"]["message"]
    assert answer["data"]["hint"]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
spots = st.sampled_from(
    ["specversion", "id", "source", "type", "subject", "time", "expirytime", "data", "data.reason", "data.source", "data.source.from",
     "data.source.to", "data.source.partitions", "data.target", "data.target.headers", "data.limits", "data.verify", "data.extra", "extra"]
)  # fmt: skip


@st.composite
def bad_records(draw: st.DrawFn) -> bytes:
    """Random bytes, random JSON, or a good command with one to three places replaced by anything."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.binary(max_size=200))
    if kind == 1:
        return json.dumps(draw(values)).encode()
    event = {**good(), "id": uuid.uuid4().hex}
    for spot in draw(st.lists(spots, min_size=1, max_size=3)):
        *way, last = spot.split(".")
        place: Any = event
        for part in way:
            place = place.get(part) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = draw(values)
    return json.dumps(event).encode()


@settings(max_examples=15, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(bad_records(), min_size=BATCH, max_size=BATCH))
def test_row_18_whatever_hypothesis_makes_up_has_exactly_one_outcome_each(stack: Stack, records: list[bytes]) -> None:
    first, *_, last = stack.control.many([(record, None, ()) for record in records])
    wanted = range(first, last + 1)
    stack.follower.wait(lambda: set(wanted) <= set(outcomes(stack)), 30, f"outcomes of {wanted}")
    stack.follower.wait(lambda: applied(stack) >= last, 30, f"the daemon to have applied offset {last}")
    assert sorted(o for o in outcomes(stack) if o in wanted) == list(wanted)


def test_row_18_after_all_of_it_a_good_command_works(stack: Stack, daemon: DaemonProcess, plain: str) -> None:
    stack.control.replay("sound", plain, f"{stack.mark}-sound", target_create=True, dry_run=True)
    assert stack.follower.wait_state("sound", "planned")["plan"]["records_at_most"] == 16_000
    daemon.await_leader()


def unreadable(stack: Stack, offset: int) -> Any:
    return next((e for e in stack.follower.events(kind="control_unreadable") if e["data"]["offset"] == offset), None)


def two_answers(stack: Stack, command_id: str) -> Any:
    found = stack.follower.answers(command_id)
    return found if len(found) > 1 else None


def letters(stack: Stack, offset: int) -> list[Any]:
    wanted = ("recoveryd-original-offset", str(offset).encode())
    return [letter for letter in stack.follower.dead_letters() if wanted in letter.headers]


def outcomes(stack: Stack) -> list[int]:
    """The offsets of control records that have an outcome, one entry per outcome."""
    told = (".command_", ".control_unreadable.", ".signal_")
    found = [e["data"] for e in stack.follower.events() if any(kind in e["type"] for kind in told)]
    return [data.get("control_offset", data.get("offset")) for data in found]


def applied(stack: Stack) -> int:
    record = stack.follower.status("_daemon")
    return -1 if record is None else int(record["applied_control_offset"])


def test_row_18_a_header_name_that_is_not_utf8_stops_neither_this_daemon_nor_the_next(
    stack: Stack, daemon: DaemonProcess
) -> None:
    """Neither client library of the daemon can read such a name: one takes the batch for corrupt, the other ends its
    process. The daemons of the test below read it again.
    """
    topic = f"{stack.prefix}control.v1"
    dead = write_odd(stack.bootstrap, topic, b"{")
    event = {**good(), "id": uuid.uuid4().hex}
    write_odd(stack.bootstrap, topic, json.dumps(event).encode(), key=b"never")
    [letter] = stack.follower.wait(lambda: letters(stack, dead), 15, "the dead letter")
    assert letter.value == b"{"
    assert stack.follower.wait_answer(event["id"], 15)["data"]["code"] == "RCV-2001"
    assert daemon.is_running()


def test_row_18_what_was_refused_keeps_no_later_daemon_from_leading(stack: Stack, daemon: DaemonProcess) -> None:
    """A new leader reads the whole control topic again."""
    for value in (*UNREADABLE.values(), *REFUSED.values()):
        stack.control.raw(value)
    daemon.kill()
    daemon.start()
    daemon.await_leader()
    event = {**good(), "id": uuid.uuid4().hex}
    stack.control.raw(json.dumps(event).encode())
    assert stack.follower.wait_answer(event["id"], 30)["data"]["code"] == "RCV-2001"
    daemon.kill()  # now with all of it before the applied offset
    daemon.start()
    daemon.await_leader()
    stack.control.raw(json.dumps(event).encode())
    answers = stack.follower.wait(lambda: two_answers(stack, event["id"]), 30, "an answer to the second copy")
    assert [answer["type"].split(".")[-2] for answer in answers] == ["command_rejected", "command_duplicate"]
    dead = [dict(letter.headers)["recoveryd-original-offset"] for letter in stack.follower.dead_letters()]
    assert len(dead) == len(set(dead)) > len(UNREADABLE), "each is there once"


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_row_18_a_producer_may_compress_its_commands(stack: Stack, daemon: DaemonProcess, codec: str) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap, "compression.type": codec, "linger.ms": 1_000})
    events = [{**good(), "id": uuid.uuid4().hex} for _ in range(5)]
    for event in events:
        producer.produce(f"{stack.prefix}control.v1", json.dumps(event).encode(), b"never")
    assert producer.flush(60) == 0
    for event in events:
        stack.follower.wait_answer(event["id"], 15)
    assert daemon.is_running()


def rejected_signals(daemon: DaemonProcess) -> float:
    """Of names that the config does not have."""
    name = 'recoveryd_signals_rejected_total{reason="unknown_name"} '
    lines = daemon.get("/metrics")[1].splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_row_18_a_lag_of_a_group_that_nobody_configured_is_counted_and_has_no_series(
    stack: Stack, daemon: DaemonProcess
) -> None:
    """Anybody may write signals, and series cost memory in whatever reads them."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lag = {"partition": 0, "committed": 5, "end": 9, "sampled_at": now}
    data = {"cluster": "main", "group": "nobodys-group", "topic": "nobodys-topic", "partitions": [lag]}
    signal = {
        "specversion": "1.0",
        "source": "//tests/anybody",
        "type": "io.recoveryd.signal.lag.v1",
        "time": now,
        "data": data,
    }
    before = rejected_signals(daemon)
    for number in range(BATCH):
        stack.control.raw(json.dumps({**signal, "id": f"lag-{number}"}).encode())
    wait_for(lambda: rejected_signals(daemon) == before + BATCH, 15)
    assert "nobodys-" not in daemon.get("/metrics")[1]
