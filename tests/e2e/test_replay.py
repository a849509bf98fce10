"""Replays end to end: a record on the control topic, a real daemon, real Spark, a real broker, and the checker's
verdict on the copy.

All tests of the module share one daemon; each uses recoveries and targets of its own.
"""

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.builders.history import Draft, create_topics, produce
from tests.e2e.asking import (
    accepted,
    await_progress,
    copied,
    fill_one_partition,
    iso,
    lane_progress,
    newest_lane_states,
    positions,
    receipts_end,
)  # fmt: skip
from tests.e2e.clients import writer
from tests.e2e.conftest import PLAIN_RECORDS_EACH
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, LiveProducer, fill_plain
from tests.e2e.log_reader import offsets, read_log, whole_log
from tests.e2e.observer import TargetObserver
from tests.e2e.stack import Stack, completed_ranges

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("daemon")]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    """With a spare driver kept warm, for each of these replays."""
    with stack.running(settings={"profiles": {"default": {"warm": 1}}}) as leading:
        yield leading


@dataclass(frozen=True)
class Names:
    """Names of one test's own recovery and target."""

    recovery: str
    target: str


@pytest.fixture
def names(stack: Stack) -> Names:
    number = next(_numbers)
    return Names(f"r{number}", f"{stack.prefix}target{number}".replace(".", "-"))


@dataclass
class Followed:
    """A replay that follows a live topic from the beginning of the module on; it ends after half a minute at zero lag,
    and is verified by its receipts only.
    """

    recovery: str
    source: str
    target: str
    live: LiveProducer
    observer: TargetObserver
    started_s: float


@pytest.fixture(scope="module")
def followed(stack: Stack, daemon: DaemonProcess) -> Iterator[Followed]:
    source, target = f"{stack.mark}-live", f"{stack.mark}-live-copy"
    fill_plain(stack.bootstrap, source, 2, 2_000)
    with LiveProducer(stack.bootstrap, source, 2, 200) as live, TargetObserver(stack.bootstrap, target) as observer:
        stack.control.replay("follower", source, target, stop="caught_up", target_create=True, verify="digest")
        yield Followed("follower", source, target, live, observer, time.monotonic())


@pytest.mark.scenario("S-WIKI-4", "S-WIKI-4a", "S-WIKI-C3")
@pytest.mark.usefixtures("followed")
def test_a_replay_to_latest_copies_the_nastiest_topic_bit_for_bit(stack: Stack, nasty: str, names: Names) -> None:
    with TargetObserver(stack.bootstrap, names.target) as observer:
        command_id = stack.control.replay(names.recovery, nasty, names.target, target_create=True)
        answer = stack.follower.wait_answer(command_id)
        done = stack.completed(names.recovery)
        observed = observer.observed()
    assert stack.violations(names.recovery, nasty, names.target, observed=observed) == []
    assert answer["type"] == "io.recoveryd.event.command_accepted.v1"
    assert answer["subject"] == names.recovery
    assert (done["stop"]["reason"], done["stop"]["mode"], done["verification"]["result"]) == (
        "zero_lag",
        "bounded",
        "match",
    )
    assert stack.follower.states(names.recovery)[-3:] == ["running", "verifying", "completed"]
    assert len(stack.follower.answers(command_id)) == 1


@pytest.mark.scenario("S-CASTLE-1")
def test_several_replays_at_once_each_copy_their_own(stack: Stack, plain: str) -> None:
    wanted: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "same": ({"target_create": True}, {}),
        "hashed": ({"target_mapping": "key_hash"}, {"mapping": "key_hash"}),
        "dressed": (
            {"target_create": True, "target_headers": {"add": {"by": "me", "why": "ü"}, "drop": ["n"]}},
            {"headers_add": (("by", "me"), ("why", "ü")), "headers_drop": ("n",)},
        ),
    }
    target = {name: f"{stack.mark}-{name}" for name in wanted}
    create_topics(stack.bootstrap, {target["hashed"]: 3})
    for name, (fields, _) in wanted.items():
        stack.control.replay(name, plain, target[name], **fields)
    for name in wanted:
        stack.completed(name, 120)
    found = {name: stack.violations(name, plain, target[name], **asked) for name, (_, asked) in wanted.items()}
    assert found == {"same": [], "hashed": [], "dressed": []}


@pytest.mark.scenario("S-RUN-21c", "S-CASTLE-0", "S-CASTLE-1")
def test_two_replays_into_one_target_are_refused_unless_both_append(stack: Stack, plain: str, names: Names) -> None:
    create_topics(stack.bootstrap, {names.target: 4})
    slow = {"limits": {"max_records_per_s": 100}, "source_to": {"offset": 2500}}
    one, other = f"{names.recovery}-one", f"{names.recovery}-other"
    assert accepted(stack, stack.control.replay(one, plain, names.target, target_on_existing="append", **slow))
    refusal = stack.follower.wait_answer(stack.control.replay(f"{one}-b", plain, names.target))
    assert (refusal["type"].split(".")[-2], refusal["data"]["code"]) == ("command_rejected", "RCV-2007")
    ranges = dict.fromkeys(range(4), (2500, 5000))
    assert accepted(
        stack,
        stack.control.replay(other, plain, names.target, start={"offset": 2500}, target_on_existing="append"),
    )
    stack.control.command("throttle", one, {"limits": {"max_records_per_s": None}})
    stack.completed(one, 120)
    stack.completed(other, 120)
    check = [
        stack.violations(one, plain, names.target, dict.fromkeys(range(4), (0, 2500)), shared_with=[other]),
        stack.violations(other, plain, names.target, ranges, shared_with=[one]),
    ]
    assert check == [[], []]


@pytest.mark.scenario("S-WIKI-5b", "S-WIKI-C1", "S-WIKI-C1a", "S-WIKI-C1b", "S-WIKI-C1c")
def test_a_running_replay_is_throttled_paused_resumed_and_stopped_exactly(
    stack: Stack, plain: str, names: Names
) -> None:
    began_s = time.monotonic()
    stack.control.replay(names.recovery, plain, names.target, target_create=True, limits={"max_records_per_s": 50})
    stack.follower.wait_state(names.recovery, "running")
    pid = stack.follower.driver_pid(names.recovery, 1)
    await_progress(stack, names.recovery, 50)
    # In the time that really passed: a busy machine copies fewer. Each lane may have saved up a second's worth.
    assert lane_progress(stack, names.recovery)[-1][1] <= 50 * (time.monotonic() - began_s) + 100
    told_s, before = lane_progress(stack, names.recovery)[-1]

    def over_the_first_limit() -> float:
        return lane_progress(stack, names.recovery)[-1][1] - before - 50 * (time.monotonic() - told_s) - 100

    stack.control.command("throttle", names.recovery, {"limits": {"max_records_per_s": 400}})
    stack.follower.wait(lambda: over_the_first_limit() > 250, 10, "more than the first limit lets through")

    stack.control.command("pause", names.recovery)
    paused = stack.follower.wait_state(names.recovery, "paused", 15)
    at = positions(paused)
    assert at == receipts_end(stack, names.recovery, dict.fromkeys(range(4), 0))
    held = copied(stack, names.target)
    assert held == sum(at.values())
    stack.follower.wait(lambda: newest_lane_states(stack, names.recovery) == {"paused"}, 10, "all lanes paused")
    stack.follower.catch_up()
    [event] = stack.follower.events(subject=names.recovery, kind="recovery_paused")
    assert {p["partition"]: p["position"] for p in event["data"]["positions"]} == at

    stack.control.command("resume", names.recovery)
    await_progress(stack, names.recovery, held + 200)
    stack.control.command("stop", names.recovery)
    stopped = stack.follower.wait_state(names.recovery, "stopped", 15)
    assert stopped["stop"]["reason"] == "operator"
    ranges = completed_ranges(stopped)
    assert {p: stop for p, (_, stop) in ranges.items()} == receipts_end(
        stack, names.recovery, dict.fromkeys(range(4), 0)
    )
    assert held < copied(stack, names.target) < 4 * PLAIN_RECORDS_EACH
    assert stack.violations(names.recovery, plain, names.target, ranges) == []
    reports = stack.follower.heartbeats(names.recovery, driver=True)
    assert {(report["attempt"], report["pid"]) for _, report in reports} == {(1, pid)}


@pytest.mark.scenario("S-RUN-2")
def test_a_dry_run_only_plans_and_its_hash_runs_the_same_plan_once(stack: Stack, names: Names) -> None:
    source = f"{names.target}-source"
    fill_plain(stack.bootstrap, source, 2, 300)
    create_topics(stack.bootstrap, {names.target: 2})
    stack.control.replay(names.recovery, source, names.target, dry_run=True)
    planned = stack.follower.wait_state(names.recovery, "planned")
    assert copied(stack, names.target) == 0
    plan = planned["plan"]
    assert [(p["start"], p["stop"]) for p in plan["source"]["partitions"]] == [(0, 300), (0, 300)]
    assert plan["eta_seconds"]["lo"] < plan["eta_seconds"]["mid"] < plan["eta_seconds"]["hi"]
    assert (plan["budget"]["mode"], plan["budget"]["bytes_per_s"]) == ("unlimited", None)
    assert plan["traffic"] == {"label": "replay", "topic": names.target}
    stack.control.replay(f"{names.recovery}-again", source, names.target, dry_run=True)
    assert stack.follower.wait_state(f"{names.recovery}-again", "planned")["plan"]["hash"] == plan["hash"]

    stack.control.replay(f"{names.recovery}-run", source, names.target, plan_hash=planned["plan"]["hash"])
    stack.completed(f"{names.recovery}-run")
    assert stack.violations(f"{names.recovery}-run", source, names.target) == []

    again = stack.control.replay(
        f"{names.recovery}-late", source, names.target, target_on_existing="append", plan_hash=planned["plan"]["hash"]
    )
    refusal = stack.follower.wait_answer(again)
    assert (refusal["type"].split(".")[-2], refusal["data"]["code"]) == ("command_rejected", "RCV-1012")


@pytest.mark.scenario("S-WIKI-4a")
def test_ranges_without_records_end_cleanly_with_zero_records(stack: Stack, plain: str, names: Names) -> None:
    empty, partly = f"{names.target}-empty", f"{names.target}-partly"
    create_topics(stack.bootstrap, {empty: 3, partly: 3})
    fill_one_partition(stack, partly, 1, 50)
    gap_ms = BASE_MS + 10_500  # records lie one second apart
    between = {"start": iso(gap_ms), "stop": iso(gap_ms + 400)}
    asked: Mapping[str, tuple[str, Mapping[str, Any], dict[int, tuple[int, int]]]] = {
        "empty-topic": (empty, {}, dict.fromkeys(range(3), (0, 0))),
        "some-partitions": (partly, {}, {0: (0, 0), 1: (0, 50), 2: (0, 0)}),
        "between-times": (plain, between, dict.fromkeys(range(4), (11, 11))),
        # Pinned to empty ranges as well, from which on there is no difference any more.
        "empty-range": (plain, {"start": {"offset": 7}, "stop": {"offset": 7}}, dict.fromkeys(range(4), (7, 7))),
        "after-the-end": (plain, {"start": "2100-01-01T00:00:00Z"}, dict.fromkeys(range(4), (5000, 5000))),
    }
    plans = ("empty-range", "after-the-end")
    for name, (source, fields, _) in asked.items():
        more = {**fields, "target_create": True, "dry_run": name in plans}
        stack.control.replay(f"{names.recovery}-{name}", source, f"{names.target}-{name}", **more)
    for name, (source, _, ranges) in asked.items():
        run = f"{names.recovery}-{name}"
        if name in plans:
            pinned = stack.follower.wait_state(run, "planned")["plan"]["source"]["partitions"]
            assert {p["partition"]: (p["start"], p["stop"]) for p in pinned} == ranges
            assert {p["at_end"] for p in pinned} == {name == "after-the-end"}
            continue
        done = stack.completed(run)
        assert stack.violations(run, source, f"{names.target}-{name}", ranges) == [], name
        assert copied(stack, f"{names.target}-{name}") == (50 if name == "some-partitions" else 0)
        assert done["stop"]["reason"] == "zero_lag"


@pytest.mark.scenario("S-WIKI-9", "S-WIKI-9a", "S-RUN-11", "S-OSO-7")
def test_a_window_of_time_over_unordered_times_copies_exactly_its_records(
    stack: Stack, nasty: str, names: Names
) -> None:
    """A time bound is an index lookup and a filter of each record: in the range, some are older or newer than the
    window.
    """
    start_ms, stop_ms = BASE_MS - 1, BASE_MS + 501
    stack.control.replay(
        names.recovery, nasty, names.target, start=iso(start_ms), stop=iso(stop_ms), source_partitions=[0, 1], target_create=True
    )  # fmt: skip
    done = stack.completed(names.recovery)
    ranges = {p["partition"]: (p["start"], p["stop"]) for p in done["plan"]["source"]["partitions"]}
    inside = {
        p: [r for r in records if ranges[p][0] <= r.offset < ranges[p][1]]
        for p, records in read_log(stack.bootstrap, nasty).items()
        if p in ranges
    }
    chosen = sum(1 for records in inside.values() for r in records if start_ms <= r.time_ms < stop_ms)
    assert copied(stack, names.target) == chosen > 0
    assert sum(row["filtered"] for row in done["completeness"]) == sum(map(len, inside.values())) - chosen > 0
    window = {"from_time_ms": start_ms, "to_time_ms": stop_ms}
    assert stack.violations(names.recovery, nasty, names.target, ranges, **window) == []


@pytest.mark.wide("tests/e2e/test_replay.py::test_two_replays_into_one_target_are_refused_unless_both_append")
@pytest.mark.scenario("S-RUN-25")
def test_an_append_leaves_what_was_there(stack: Stack, plain: str, names: Names) -> None:
    fill_plain(stack.bootstrap, names.target, 4, 10)
    before = offsets(stack.bootstrap, names.target, end=True)
    refusal = stack.follower.wait_answer(stack.control.replay(f"{names.recovery}-no", plain, names.target))
    assert (refusal["type"].split(".")[-2], refusal["data"]["code"]) == ("command_rejected", "RCV-2005")
    stack.control.replay(names.recovery, plain, names.target, start={"offset": 4000}, target_on_existing="append")
    stack.completed(names.recovery)
    ranges = dict.fromkeys(range(4), (4000, 5000))
    assert stack.violations(names.recovery, plain, names.target, ranges, target_from=before) == []


@pytest.mark.wide("tests/e2e/test_replay.py::test_what_one_lane_cannot_use_of_a_cap_another_lane_copies")
def test_a_cap_on_records_ends_the_copy_below_it(stack: Stack, plain: str, names: Names) -> None:
    stack.control.replay(names.recovery, plain, names.target, target_create=True, limits={"max_records": 3000})
    done = stack.follower.wait_state(names.recovery, "stopped")
    assert done["stop"]["reason"] == "max_records"
    assert copied(stack, names.target) == 3000
    assert stack.violations(names.recovery, plain, names.target, completed_ranges(done)) == []


def test_what_one_lane_cannot_use_of_a_cap_another_lane_copies(stack: Stack, names: Names) -> None:
    """One partition has as many offsets as the other, but most of its records are older than the window."""
    source = f"{names.target}-source"
    create_topics(stack.bootstrap, {source: 2})
    producer = writer(stack.bootstrap, linger_ms=20)
    for number in range(1_000):
        is_old = 0 < number < 900
        produce(producer, source, Draft(0, b"a", b"v%d" % number, (), BASE_MS - 1_000 if is_old else BASE_MS + number))
        produce(producer, source, Draft(1, b"b", b"v%d" % number, (), BASE_MS + number))
    assert producer.flush(60) == 0
    stack.control.replay(
        names.recovery, source, names.target, start=iso(BASE_MS), target_create=True, limits={"max_records": 800}
    )
    done = stack.follower.wait_state(names.recovery, "stopped")
    assert (done["stop"]["reason"], done["attempt"]) == ("max_records", 2)
    assert [(row["copied"], row["to"]) for row in done["completeness"]] == [(101, 1_000), (699, 699)]
    assert copied(stack, names.target) == done["progress"]["records"] == 800
    covered = completed_ranges(done)
    assert stack.violations(names.recovery, source, names.target, covered, from_time_ms=BASE_MS) == []


@pytest.mark.wide("tests/e2e/test_replay.py::test_what_one_lane_cannot_use_of_a_cap_another_lane_copies")
def test_what_a_lane_at_the_live_head_does_not_use_of_a_cap_another_lane_copies(stack: Stack, names: Names) -> None:
    source = f"{names.target}-source"
    create_topics(stack.bootstrap, {source: 2})
    producer = writer(stack.bootstrap, linger_ms=20)
    for number in range(1_000):
        produce(producer, source, Draft(number >= 50, b"k", b"v%d" % number, (), BASE_MS + number))
    assert producer.flush(60) == 0
    stack.control.replay(
        names.recovery, source, names.target, stop="never", target_create=True, limits={"max_records": 800}
    )
    done = stack.follower.wait_state(names.recovery, "stopped", 90)
    assert (done["stop"]["reason"], done["attempt"]) == ("max_records", 2)
    assert [(row["copied"], row["to"]) for row in done["completeness"]] == [(50, 50), (750, 750)]
    assert copied(stack, names.target) == done["progress"]["records"] == 800
    assert stack.violations(names.recovery, source, names.target, completed_ranges(done)) == []


@pytest.mark.wide(
    "tests/spark/test_lane_copy.py::test_a_cap_on_bytes_counts_what_is_written_and_cuts_every_lane_where_its_copy_ends"
)
def test_a_cap_on_bytes_counts_what_is_written_and_calls_nothing_skipped(stack: Stack, names: Names) -> None:
    """Records lose most of their bytes with a dropped header: the cap counts bytes written, not bytes read."""
    source = f"{names.target}-source"
    create_topics(stack.bootstrap, {source: 4})
    producer = writer(stack.bootstrap, linger_ms=20)
    for number in range(20_000):
        draft = Draft(number % 4, b"k%d" % (number % 97), b"v%d" % number, (("trace", b"x" * 400),), BASE_MS + number)
        produce(producer, source, draft)
    assert producer.flush(60) == 0
    limits = {"max_bytes": 100_000}
    stack.control.replay(
        names.recovery, source, names.target, target_create=True, target_headers={"drop": ["trace"]}, limits=limits
    )
    done = stack.follower.wait_state(names.recovery, "stopped")
    assert (done["stop"]["reason"], done["progress"]["records"]) == ("max_bytes", copied(stack, names.target))
    assert 100_000 <= done["progress"]["bytes"] < 100_000 + 4 * len("k96v19999")
    assert [row["copied"] for row in done["completeness"]] == [row["offsets"] for row in done["completeness"]]
    covered = completed_ranges(done)
    assert stack.violations(names.recovery, source, names.target, covered, headers_drop=("trace",)) == []


@pytest.mark.wide("tests/e2e/test_replay.py::test_a_running_replay_is_throttled_paused_resumed_and_stopped_exactly")
@pytest.mark.scenario("S-WIKI-5b")
def test_a_replay_that_never_ends_by_itself_stops_on_command(stack: Stack, names: Names) -> None:
    source = f"{names.target}-source"
    fill_plain(stack.bootstrap, source, 2, 1000)
    with LiveProducer(stack.bootstrap, source, 2, 200) as live:
        stack.control.replay(names.recovery, source, names.target, stop="never", target_create=True)
        stack.follower.wait(lambda: copied(stack, names.target) > 2400, 60, "the copy to follow the live head")
        stack.control.command("stop", names.recovery)
        stopped = stack.follower.wait_state(names.recovery, "stopped", 15)
    written = live.written
    assert stopped["stop"]["reason"] == "operator"
    assert 2400 < copied(stack, names.target) <= 2000 + written
    ranges = completed_ranges(stopped)
    assert stack.violations(names.recovery, source, names.target, ranges) == []


@pytest.mark.scenario("S-WIKI-4a", "S-CASTLE-1")
def test_a_replay_that_follows_a_live_topic_stops_by_itself_once_it_caught_up(stack: Stack, followed: Followed) -> None:
    stack.follower.wait(lambda: copied(stack, followed.target) > 4_000, 60, "the copy to reach the live records")
    followed.live.close()
    done = stack.completed(followed.recovery, 90)
    assert (done["stop"]["reason"], done["stop"]["mode"]) == ("zero_lag", "caught_up")
    covered = completed_ranges(done)
    whole = whole_log(stack.bootstrap, followed.source)
    # It may have caught up and stopped while the producer still wrote, but not before it reached the live records.
    assert {p: start for p, (start, _) in covered.items()} == {p: start for p, (start, _) in whole.items()}
    assert all(2_000 <= covered[p][1] <= whole[p][1] for p in whole)
    assert (
        stack.violations(
            followed.recovery, followed.source, followed.target, covered, observed=followed.observer.observed()
        )
        == []
    )
    [auto_stop] = stack.follower.events(subject=followed.recovery, kind="auto_stop")
    assert auto_stop["data"]["mode"] == "caught_up"
    assert auto_stop["data"]["evidence"]
    assert (done["verification"]["result"], done["verification"]["scope"]) == ("match", "receipts")
