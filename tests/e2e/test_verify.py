"""The command `verify` end to end: copies by recoveryd and by others, whole and damaged, on one cluster and on two,
steered while they are compared.

The copies by hand are made by a plain producer. All tests of the module share one daemon, which knows two clusters.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from recoveryd_sandbox.broker import Broker
from tests.builders.history import Draft, create_topics, produce, with_fields
from tests.e2e.asking import iso
from tests.e2e.by_hand import Edit, copy_by_hand
from tests.e2e.clients import writer
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, fill_nasty, fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import offsets, read_log
from tests.e2e.processes import kill
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

_numbers = itertools.count(1)
SLOW_PER_S = 200
SLOW = {"limits": {"max_records_per_s": SLOW_PER_S}}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second cluster, on which nothing of recoveryd exists."""
    with Broker(tmp_path_factory.mktemp("other")) as started:
        yield started.bootstrap


@pytest.fixture(scope="module")
def stack(bootstrap: str, other: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"clusters": {"other": {"bootstrap.servers": other}}}
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), settings) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


@pytest.fixture
def name(stack: Stack) -> str:
    return f"v{next(_numbers)}"


def verify(stack: Stack, name: str, source: str, target: str, **more: Any) -> str:
    sides: dict[str, dict[str, Any]] = {"source": {"topic": source}, "target": {"topic": target}}
    data: dict[str, Any] = {}
    for field, value in more.items():
        side, _, rest = field.partition("_")
        if side in sides:
            sides[side][rest] = value
        else:
            data[field] = value
    return stack.control.command("verify", name, {**sides, **data})


def ended(stack: Stack, name: str) -> Document:
    return stack.completed(name, 120.0)


def found(status: Document) -> list[tuple[Any, ...]]:
    """Kind and places of each difference."""
    names = ("kind", "source_partition", "source_offset", "target_partition", "target_offset")
    return [tuple(d[n] for n in names) for d in status["verification"]["differences"]]


def recoveryctl(stack: Stack, *args: str) -> tuple[int, str]:
    done = stack.recoveryctl(*args)
    return done.exit_code, done.stdout + done.stderr


def topics_of(bootstrap: str) -> set[str]:
    """The topics, without those that Kafka creates for itself when a group reads."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return {name for name in admin.list_topics(timeout=60).topics if not name.startswith("__")}


def topic(stack: Stack, name: str, what: str) -> str:
    return f"{stack.prefix}{name}-{what}".replace(".", "-")


@pytest.mark.wide(
    "tests/e2e/test_two_secured.py::test_a_copy_from_the_other_cluster_is_exact_and_a_verification_of_its_own_says_the_same"
)
def test_a_copy_of_recoveryd_is_proved_again_without_its_receipts(stack: Stack, nasty: str, name: str) -> None:
    target = topic(stack, name, "copy")
    stack.control.replay(f"{name}-copy", nasty, target, target_create=True)
    copied = stack.completed(f"{name}-copy")

    verify(stack, name, nasty, target)
    status = ended(stack, name)

    assert (status["kind"], status["completeness"], status["stop"], status["error_code"]) == (
        "verification",
        [],
        None,
        None,
    )
    verification = status["verification"]
    assert (verification["result"], verification["scope"], verification["differences"]) == ("match", "source", [])
    assert verification["source_records"] == verification["target_records"] == copied["progress"]["records"]


def _changed(number: int, **changes: Any) -> Edit:
    def edit(drafts: Sequence[Draft]) -> Sequence[Draft]:
        return [*drafts[:number], with_fields(**changes)(drafts[number]), *drafts[number + 1 :]]

    return edit


@pytest.fixture(scope="module")
def small(stack: Stack) -> str:
    source = f"{stack.prefix}small".replace(".", "-")
    fill_plain(stack.bootstrap, source, 2, 300)
    return source


def test_a_plan_alone_pins_both_sides_and_starts_nothing(stack: Stack, small: str, name: str) -> None:
    target = topic(stack, name, "copy")
    copy_by_hand(stack.bootstrap, small, target)
    code, printed = recoveryctl(
        stack, "verify", "--source", small, "--target", target, "--plan-only", "--id", name, "-o", "json"
    )
    assert code == 0, printed
    plan = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])["plan"]
    assert [(p["start"], p["stop"]) for p in plan["source"]["partitions"]] == [(0, 300), (0, 300)]
    assert [(p["start"], p["stop"]) for p in plan["target"]["ranges"]] == [(0, 300), (0, 300)]
    assert stack.follower.heartbeats(name, driver=True) == []


@pytest.mark.scenario("S-OSO-17a")
def test_a_copy_by_hand_with_everything_that_may_trip_a_script_matches_on_another_cluster_that_has_nothing_of_recoveryd(
    stack: Stack, nasty: str, other: str, name: str
) -> None:
    copy_by_hand(stack.bootstrap, nasty, nasty, to=other)
    before = topics_of(other)
    verify(stack, name, nasty, nasty, target_cluster="other")
    assert ended(stack, name)["verification"]["result"] == "match"
    assert topics_of(other) == before


@pytest.mark.wide(
    "tests/recovery/test_life_of_a_verification.py::test_times_choose_records_and_each_log_is_read_from_the_first_one_that_is_so_new_to_its_end"
)
def test_a_window_of_time_is_compared_inside_a_longer_copy(stack: Stack, small: str, name: str) -> None:
    """The copy follows records of others and goes on after the window: each side is bounded in its own log."""
    target = topic(stack, name, "longer")
    create_topics(stack.bootstrap, {target: 2})
    producer = writer(stack.bootstrap)
    for partition, records in read_log(stack.bootstrap, small).items():
        for number in range(7):
            produce(producer, target, Draft(partition, b"before", b"%d" % number, (), BASE_MS - 1_000_000 + number))
        for r in records:
            produce(producer, target, Draft(partition, r.key, r.value, r.headers, r.time_ms))
    assert producer.flush(60) == 0

    verify(stack, name, small, target, source_from="2023-11-14T22:14:20Z", source_to="2023-11-14T22:16:00Z")
    status = ended(stack, name)

    assert (status["verification"]["result"], status["verification"]["source_records"]) == ("match", 200)
    assert [r["start"] for r in status["plan"]["target"]["ranges"]] == [67, 67]


@pytest.mark.wide("tests/spark/test_verify.py::test_a_repartitioned_copy_of_bounded_records_with_other_headers_matches")
def test_header_rules_and_key_hash_of_a_copy_are_taken_into_account(stack: Stack, small: str, name: str) -> None:
    target = topic(stack, name, "spread")
    rules: Mapping[str, Any] = {"mapping": "key_hash", "headers": {"add": {"copied-by": "us"}, "drop": ["n"]}}
    create_topics(stack.bootstrap, {target: 3})
    stack.control.replay(f"{name}-copy", small, target, target_mapping="key_hash", target_headers=rules["headers"])
    stack.completed(f"{name}-copy")

    verify(stack, name, small, target, **rules)
    verify(stack, f"{name}-without", small, target, mapping="key_hash")

    assert ended(stack, name)["verification"]["result"] == "match"
    assert ended(stack, f"{name}-without")["verification"]["result"] == "mismatch"


def test_what_a_cap_let_through_is_proved_by_the_offsets_of_its_table(stack: Stack, name: str) -> None:
    """As in docs/verify.md, for a replay from a time with header rules; `recoveryctl verify` ends with 0 on a match,
    and with 9 on differences.
    """
    source, target, start = topic(stack, name, "source"), topic(stack, name, "copy"), iso(BASE_MS + 50_000)
    fill_plain(stack.bootstrap, source, 2, 400)
    headers = {"add": {"by": "us"}, "drop": ["n"]}
    stack.control.replay(
        f"{name}-copy", source, target, start=start, target_create=True, target_headers=headers, limits={"max_records": 300}
    )  # fmt: skip
    capped = stack.follower.wait_state(f"{name}-copy", "stopped", 90)
    rows, skipped = capped["completeness"], capped["verification"]
    assert (capped["stop"]["reason"], skipped["result"], skipped["why"]) == (
        "max_records",
        "skipped",
        "the run ended early",
    )
    assert sum(row["copied"] for row in rows) == 300

    ends = "offsets:" + ",".join(f"{row['partition']}={row['to']}" for row in rows)
    sides = (
        "--yes",
        "--wait",
        "--source",
        source,
        "--from",
        start,
        "--to",
        ends,
        "--target",
        target,
        "--target-from",
        "earliest",
    )
    again = *sides, "--add-header", "by=us", "--drop-header", "n"
    code, told = recoveryctl(stack, "verify", "--id", f"{name}-again", *again)
    assert code == 0, told
    assert "Verification: match. 300 source records, 300 found in the target." in told
    proof = ended(stack, f"{name}-again")["verification"]
    assert (proof["result"], proof["source_records"], proof["target_records"]) == ("match", 300, 300)
    code, told = recoveryctl(stack, "verify", "--id", f"{name}-bare", *sides)
    assert code == 9, told
    told = recoveryctl(stack, "describe", f"{name}-bare")[1]
    assert "altered" in told, told
    assert recoveryctl(stack, "get", f"{name}-bare", "-o", "json")[1].find('"RCV-3007"') > 0


@pytest.mark.wide(
    "tests/spark/test_proof_attacks.py::test_what_others_wrote_to_any_partition_of_a_target_of_our_own_is_extra"
)
def test_records_in_a_partition_that_nothing_maps_to_are_extra(stack: Stack, small: str, name: str) -> None:
    target = topic(stack, name, "wider")
    copy_by_hand(stack.bootstrap, small, target)
    admin = AdminClient({"bootstrap.servers": stack.bootstrap})
    admin.create_partitions([NewPartitions(target, 3)])[target].result(60)
    producer = writer(stack.bootstrap)
    stack.follower.wait(lambda: len(offsets(stack.bootstrap, target, end=True)) == 3, 30.0, "the third partition")
    produce(producer, target, Draft(2, b"k", b"somebody else", (), BASE_MS))
    assert producer.flush(60) == 0

    verify(stack, name, small, target)
    status = ended(stack, name)

    assert (status["verification"]["extra_records"], status["verification"]["source_records"]) == (1, 600)
    assert found(status) == [("extra", None, None, 2, 0)]


@pytest.fixture(scope="module")
def large(stack: Stack) -> tuple[str, str]:
    """A topic and its copy, so long that comparing them slowly takes a minute."""
    source = f"{stack.prefix}large".replace(".", "-")
    fill_plain(stack.bootstrap, source, 2, 5_000)
    copy_by_hand(stack.bootstrap, source, f"{source}-copy")
    return source, f"{source}-copy"


def read_so_far(stack: Stack, name: str) -> int:
    newest = {beat["lane"]: beat["verified_records"] for _, beat in stack.follower.verifying(name)}
    return sum(newest.values())


def await_reading(stack: Stack, name: str, records: int) -> None:
    stack.follower.wait(lambda: read_so_far(stack, name) >= records, 90.0, f"{records} records read by {name}")


def test_a_rate_is_kept_by_all_tasks_together(stack: Stack, large: tuple[str, str], name: str) -> None:
    verify(stack, name, *large, **SLOW)
    stack.follower.wait_state(name, "verifying", 90.0)
    await_reading(stack, name, 2_400)  # a second's worth that was saved up is little of it
    stack.control.command("stop", name)
    stack.follower.wait_state(name, "stopped", 30.0)
    told: dict[int, list[tuple[int, int]]] = {}  # by the clock of the task that counts, which no reader delays
    for _, beat in stack.follower.verifying(name):
        if beat["state"] == "verifying":
            told.setdefault(beat["lane"], []).append((beat["sent_ms"], beat["verified_records"]))
    rates = []
    for task in told.values():
        (from_ms, first), (to_ms, last) = task[len(task) // 4], task[-1]
        rates.append(1000 * (last - first) / (to_ms - from_ms) if to_ms > from_ms else 0.0)
    assert 0 < sum(rates) < SLOW_PER_S * 1.3


@pytest.mark.wide(
    "tests/recovery/test_life_of_a_verification.py::test_a_stop_while_verifying_ends_stopped_with_exact_positions_and_no_verdict"
)
def test_a_stop_while_a_replay_is_verified_ends_with_exact_positions_and_no_verdict(
    stack: Stack, large: tuple[str, str], name: str
) -> None:
    """The rate is such that the copy takes twenty seconds, and its proof, which reads both sides, twice as long."""
    source, target = large[0], topic(stack, name, "copy")
    each = 1_200
    limits = {"max_records_per_s": 120}
    stack.control.replay(name, source, target, target_create=True, stop={"offset": each}, limits=limits)
    stack.follower.wait_state(name, "verifying", 90.0)

    stack.control.command("stop", name)
    stopped = stack.follower.wait_state(name, "stopped", 30.0)

    assert [(r["to"], r["copied"], r["unexplained"]) for r in stopped["completeness"]] == [(each, each, 0)] * 2
    assert stopped["verification"]["result"] == "skipped"
    assert "before it had a verdict" in stopped["verification"]["why"]
    assert stopped["stop"]["reason"] == "operator"
    stack.follower.wait(lambda: not stack.application(name), 60.0, "the application to leave")


@pytest.mark.wide("tests/recovery/test_life_of_a_verification.py::test_limits_of_time_end_a_verification_on_purpose")
def test_a_limit_of_time_ends_a_verification_without_a_verdict(stack: Stack, large: tuple[str, str], name: str) -> None:
    verify(stack, name, *large, limits={"max_records_per_s": 100, "max_runtime": "8s"})
    stopped = stack.follower.wait_state(name, "stopped", 90.0)
    assert (stopped["stop"]["reason"], stopped["verification"]["result"]) == ("max_runtime", "skipped")


@pytest.mark.wide(
    "tests/e2e/test_verify_kept.py::test_a_verification_whose_daemon_and_application_die_together_starts_again_and_names_the_damage"
)
def test_an_attempt_that_is_killed_while_verifying_is_followed_by_a_whole_one(
    stack: Stack, large: tuple[str, str], name: str
) -> None:
    verify(stack, name, *large, **SLOW)
    stack.follower.wait_state(name, "verifying", 90.0)
    await_reading(stack, name, 200)
    for process in stack.application(name):
        kill(process)
    stack.control.command("throttle", name, {"limits": {"max_records_per_s": None}})
    done = ended(stack, name)
    assert (done["verification"]["result"], done["verification"]["source_records"], done["attempt"]) == (
        "match",
        10_000,
        2,
    )


def test_what_cannot_be_compared_is_refused_by_name(stack: Stack, small: str, name: str) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"target": "no-such-topic"}, "RCV-2004"),
        ({"target": f"{stack.prefix}receipts.v1"}, "RCV-1018"),
        ({"target": small}, "RCV-1019"),
        ({"target": "x", "target_cluster": "moon"}, "RCV-1016"),
        ({"target": "x", "source_to": "never"}, "RCV-1005"),
        ({"target": "x", "target_create": True}, "RCV-1004"),
    ]
    for number, (fields, code) in enumerate(refused):
        answer = stack.follower.wait_answer(verify(stack, f"{name}-{number}", small, fields.pop("target"), **fields))
        assert (answer["type"].split(".")[-2], answer["data"]["code"]) == ("command_rejected", code), fields


def _compacted(bootstrap: str, topic: str, drafts: Sequence[Draft]) -> None:
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    create_topics(bootstrap, {topic: 2}, configs)
    producer = writer(bootstrap)
    for draft in drafts:
        produce(producer, topic, draft)
    assert producer.flush(60) == 0


def _customers(values: int) -> list[Draft]:
    """Ten keys in each of two partitions, each written `values` times."""
    return [
        Draft(p, f"c{key}".encode(), f"{p}-{key}-{round_}".encode(), (), BASE_MS + round_)
        for round_ in range(values)
        for p in range(2)
        for key in range(10)
    ]


@pytest.mark.wide("tests/e2e/test_verify.py::test_latest_names_the_key_whose_last_value_is_another_or_is_not_there")
@pytest.mark.scenario("S-OSO-17b")
def test_latest_compares_the_last_value_of_each_key_whatever_is_left_of_the_older_ones(stack: Stack, name: str) -> None:
    source, target = topic(stack, name, "customers"), topic(stack, name, "mirror")
    drafts = _customers(5)
    _compacted(stack.bootstrap, source, drafts)
    _compacted(stack.bootstrap, target, drafts[-40:])

    verify(stack, name, source, target, compare="latest")
    verify(stack, f"{name}-all", source, target)

    status = ended(stack, name)
    assert status["verification"]["result"] == "match", status["verification"]
    assert ended(stack, f"{name}-all")["verification"]["result"] == "mismatch"


@pytest.mark.scenario("S-CASTLE-5", "S-OSO-17b")
def test_latest_names_the_key_whose_last_value_is_another_or_is_not_there(stack: Stack, name: str) -> None:
    source, target = topic(stack, name, "customers"), topic(stack, name, "mirror")
    drafts = _customers(3)
    _compacted(stack.bootstrap, source, drafts)
    kept = [d for d in drafts if d.key != b"c3" or d.partition == 1]
    _compacted(stack.bootstrap, target, [*kept[:-1], replace(kept[-1], value=b"stale")])

    verify(stack, name, source, target, compare="latest")
    status = ended(stack, name)

    assert (status["verification"]["result"], status["error_code"]) == ("mismatch", "RCV-3007")
    assert sorted((kind, partition) for kind, partition, *_ in found(status)) == [("altered", 1), ("missing", 0)]


@pytest.mark.wide("tests/e2e/test_proof.py::test_each_kind_of_damage_of_a_copy_made_by_hand_is_named_by_command")
def test_a_changed_key_among_everything_a_copy_may_stumble_over_is_found_across_clusters(
    stack: Stack, other: str, name: str
) -> None:
    source = topic(stack, name, "nasty")
    fill_nasty(stack.bootstrap, source, 40)
    copy_by_hand(stack.bootstrap, source, source, to=other, edit=_changed(3, key=b"another"))
    verify(stack, name, source, source, target_cluster="other")
    assert ended(stack, name)["verification"]["result"] == "mismatch"
