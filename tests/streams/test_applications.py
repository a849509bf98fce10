"""The sample application does what Kafka Streams does: real groups, real state, real restarts."""

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.model import Unit, UnitKind
from recoveryd_sandbox.streams_app import AppSpec, Mode, Protocol, StreamsApp
from tests.streams.data import await_committed, await_table, await_values, make_topics, values, write
from tests.streams.places import SOURCES

pytestmark = pytest.mark.broker

Begin = Callable[[AppSpec], StreamsApp]
LINES = ["the quick brown fox", "The lazy dog", "", "quick, quick: THE end"]
NAMES = [("c1", "Ann"), ("c2", "Bo")]
LATER_MS = 1_770_000_000_000  # a join finds a table's row only if that was there in event time
UNCACHED = {"statestore.cache.max.bytes": "0"}  # so that each input is one output


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol.CLASSIC,
        pytest.param(
            Protocol.STREAMS,
            marks=pytest.mark.wide("tests/streams/test_applications.py::test_words_are_counted_as_by_hand"),
        ),
    ],
)
def test_words_are_counted_as_by_hand(bootstrap: str, unique: str, streams_app: Begin, protocol: Protocol) -> None:
    make_topics(bootstrap, {f"{unique}lines": 2, f"{unique}counts": 2})
    write(bootstrap, f"{unique}lines", [(str(number), line) for number, line in enumerate(LINES)], 2)
    spec = AppSpec(f"{unique}app", Mode.WORD_COUNT, (f"{unique}lines",), f"{unique}counts", protocol=protocol)
    streams_app(spec)
    words = Counter(" ".join(LINES).lower().replace(",", "").replace(":", "").split())
    await_table(bootstrap, f"{unique}counts", {word: str(count) for word, count in words.items()})
    assert is_exactly_once(bootstrap, spec) is False


@pytest.mark.wide(
    "tests/e2e/test_reprocess.py::test_from_scratch_it_gives_what_an_application_without_the_bug_would_have_given"
)
def test_a_bug_stays_in_the_state_when_the_application_is_mended(bootstrap: str, unique: str, tmp_path: Path) -> None:
    """What `reprocess` is for."""
    orders, customers, totals = f"{unique}orders", f"{unique}customers", f"{unique}totals"
    make_topics(bootstrap, {orders: 2, customers: 2, totals: 2})
    write(bootstrap, customers, NAMES, 2)
    write(bootstrap, orders, [("c1", "5"), ("c2", "6"), ("c1", "7")], 2, begin_ms=LATER_MS)
    spec = AppSpec(f"{unique}app", Mode.TOTALS, (orders, customers), totals, factor=10)
    app = StreamsApp(tmp_path, bootstrap, spec, SOURCES)
    with app:
        await_table(bootstrap, totals, {"c1": "Ann:120", "c2": "Bo:60"})
        assert app.stop() == 0
        app.spec = replace(spec, factor=1)
        app.start()
        write(bootstrap, orders, [("c2", "1")], 2, begin_ms=LATER_MS)
        await_table(bootstrap, totals, {"c1": "Ann:120", "c2": "Bo:61"})
        assert app.stop() == 0


@pytest.mark.wide("tests/streams/test_applications.py::test_exactly_once_counts_each_record_once_over_a_kill")
def test_state_is_kept_by_a_stop_restored_after_a_kill_and_built_anew_elsewhere(
    bootstrap: str, unique: str, tmp_path: Path
) -> None:
    source, counts = f"{unique}in", f"{unique}counts"
    make_topics(bootstrap, {source: 1, counts: 1})
    keys = [f"k{number}" for number in range(50)]
    spec = AppSpec(f"{unique}app", Mode.COUNT, (source,), counts, store="counts")
    with StreamsApp(tmp_path / "here", bootstrap, spec, SOURCES) as app:
        write(bootstrap, source, [(key, "x") for key in keys], 1)
        await_table(bootstrap, counts, dict.fromkeys(keys, "1"))
        assert app.stop() == 0
        app.start()
        assert app.restored() == {("counts", 0): 0}
        write(bootstrap, source, [(key, "x") for key in keys], 1)
        await_table(bootstrap, counts, dict.fromkeys(keys, "2"))
        await_committed(bootstrap, spec.application_id, source, 2 * len(keys))
        app.kill()
        assert app.await_end() == -signal.SIGKILL
        app.start()
        assert app.restored() == {("counts", 0): 50}
        assert app.stop() == 0
    with StreamsApp(tmp_path / "there", bootstrap, spec, SOURCES) as app:
        assert app.restored() == {("counts", 0): 100}
        assert is_exactly_once(bootstrap, app.spec) is False
        write(bootstrap, source, [("k0", "x")], 1)
        await_table(bootstrap, counts, dict.fromkeys(keys, "2") | {"k0": "3"})


def test_exactly_once_counts_each_record_once_over_a_kill(bootstrap: str, unique: str, tmp_path: Path) -> None:
    """Killed in a transaction that would have stayed open for ten minutes."""
    source, counts = f"{unique}in", f"{unique}counts"
    make_topics(bootstrap, {source: 1, counts: 1})
    slow = {**UNCACHED, "commit.interval.ms": "600000", "producer.transaction.timeout.ms": "700000"}
    spec = AppSpec(
        f"{unique}app",
        Mode.COUNT,
        (source,),
        counts,
        protocol=Protocol.STREAMS,
        is_exactly_once=True,
        settings=UNCACHED,
    )
    with StreamsApp(tmp_path, bootstrap, spec, SOURCES) as app:
        write(bootstrap, source, [("k", "x")] * 3, 1)
        await_table(bootstrap, counts, {"k": "3"})
        assert app.stop() == 0
        app.spec = replace(spec, settings=slow)
        app.start()
        write(bootstrap, source, [("k", "x")] * 4, 1)
        await_values(bootstrap, counts, lambda found: len(found) >= 7, 5.0, committed=False)
        app.kill()
        assert app.await_end() == -signal.SIGKILL
        app.spec = spec
        app.start()
        await_table(bootstrap, counts, {"k": "7"})
        assert is_exactly_once(bootstrap, spec) is True
    assert [count for _, count in values(bootstrap, counts)] == list("1234567")
    assert len(values(bootstrap, counts, committed=False)) >= 11, "those of the open transaction were written again"


def is_exactly_once(bootstrap: str, spec: AppSpec) -> bool | None:
    """What brokers tell of it, without its topology."""
    listed = None if spec.store is None else (f"{spec.application_id}-{spec.store}-changelog",)
    unit = Unit("app", UnitKind.STREAMS, "main", spec.application_id, spec.inputs, internal_topics=listed)
    return read_unit({"bootstrap.servers": bootstrap}, unit, [unit], 0, ClientAccess(bootstrap)).is_exactly_once


@pytest.mark.wide(
    "tests/streams/test_internal_topics.py::test_by_their_topologies_each_application_owns_exactly_what_it_made"
)
def test_windows_are_of_event_time_and_joins_follow_both_sides(bootstrap: str, unique: str, streams_app: Begin) -> None:
    events, windows = f"{unique}events", f"{unique}windows"
    orders, customers, joined = f"{unique}orders", f"{unique}customers", f"{unique}joined"
    make_topics(bootstrap, {events: 1, windows: 1, orders: 2, customers: 2, joined: 2})
    write(bootstrap, events, [("k", "x")] * 90, 1, begin_ms=LATER_MS)  # a second apart
    write(bootstrap, orders, [("o1", "c1:5"), ("o2", "c2:6"), ("o3", "c3:7")], 2)
    write(bootstrap, customers, NAMES, 2)
    streams_app(AppSpec(f"{unique}windows", Mode.WINDOWS, (events,), windows))
    streams_app(AppSpec(f"{unique}joined", Mode.FOREIGN_KEY, (orders, customers), joined))
    await_table(bootstrap, windows, {f"k@{LATER_MS}": "60", f"k@{LATER_MS + 60_000}": "30"})
    await_table(bootstrap, joined, {"o1": "Ann:5", "o2": "Bo:6"})
    write(bootstrap, customers, [("c1", "Anna")], 2, begin_ms=LATER_MS)
    await_table(bootstrap, joined, {"o1": "Anna:5", "o2": "Bo:6"})


def test_what_it_cannot_do_it_says(bootstrap: str, unique: str, tmp_path: Path) -> None:
    app = StreamsApp(tmp_path, bootstrap, AppSpec(f"{unique}app", Mode.TOTALS, ("a",), "b"), SOURCES)
    app.launch()
    assert app.await_end() == 2
    assert app.output() == ["mode totals needs 2 inputs"]
