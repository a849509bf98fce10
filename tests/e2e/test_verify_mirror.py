"""A mirror of another cluster, made by Kafka's own MirrorMaker 2 and proved by `verify`: whole, and with records
missing.

recoveryd did not copy here, and MirrorMaker keeps no receipts: only reading both sides shows differences.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.mirror import MirrorMaker
from tests.builders.history import Draft, create_topics, produce, transactional
from tests.e2e.clients import writer
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, fill_plain, nasty_drafts
from tests.e2e.log_reader import offsets, read_log
from tests.e2e.stack import Stack
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

_POLL_S = 0.5


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("mirror-target")) as started:
        yield started.bootstrap


@pytest.fixture(scope="module")
def stack(bootstrap: str, other: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(
        bootstrap, tmp_path_factory.mktemp("stack"), {"clusters": {"other": {"bootstrap.servers": other}}}
    ) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


def visible(bootstrap: str, topic: str) -> dict[int, int]:
    """Committed records of each partition."""
    return {p: len(records) for p, records in read_log(bootstrap, topic).items()}


def await_mirrored(mirror: MirrorMaker, other: str, topic: str, wanted: dict[int, int]) -> None:
    """MirrorMaker writes no transactions, so each offset is a record."""
    give_up_at_s = time.monotonic() + patient_s(90)
    while offsets(other, topic, end=True) != wanted:
        assert mirror.is_running(), mirror.log_tail()
        assert time.monotonic() < give_up_at_s, mirror.log_tail()
        time.sleep(_POLL_S)


def fill_with_aborted(bootstrap: str, topic: str) -> None:
    """Two partitions of difficult keys, values and headers, with aborted records between them. Each record has a time,
    because MirrorMaker gives one to records without.
    """
    create_topics(bootstrap, {topic: 2}, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = transactional(bootstrap, f"{topic}-tx")
    for partition in range(2):
        drafts = [replace(d, time_ms=max(1, d.time_ms)) for d in nasty_drafts(partition, 200)]
        for start in range(0, 200, 50):
            producer.begin_transaction()
            for draft in drafts[start : start + 50]:
                produce(producer, topic, draft)
            producer.commit_transaction(60)
            producer.begin_transaction()
            produce(producer, topic, Draft(partition, b"never", b"aborted", (), BASE_MS))
            producer.flush(60)
            producer.abort_transaction(60)


@pytest.fixture(scope="module")
def mirrored(stack: Stack, other: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two topics that MirrorMaker mirrored to the other cluster with the same names."""
    topics = {what: f"{stack.prefix}{what}".replace(".", "-") for what in ("whole", "holed")}
    fill_with_aborted(stack.bootstrap, topics["whole"])
    fill_plain(stack.bootstrap, topics["holed"], 3, 2_000)
    # Created as by an operator, with the same partitions and any time allowed.
    for name, partitions in ((topics["whole"], 2), (topics["holed"], 3)):
        create_topics(other, {name: partitions}, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    folder: Path = tmp_path_factory.mktemp("mm2")
    with MirrorMaker(stack.bootstrap, other, list(topics.values()), folder) as mirror:
        for name in topics.values():
            await_mirrored(mirror, other, name, visible(stack.bootstrap, name))
    return topics


def verified(stack: Stack, recovery: str, topic: str, **more: object) -> dict[str, object]:
    sides = {"source": {"topic": topic}, "target": {"topic": topic, "cluster": "other"}}
    stack.control.command("verify", recovery, {**sides, **more})
    return dict(stack.completed(recovery, 120.0)["verification"])


@pytest.mark.wide(
    "tests/e2e/test_verify.py::test_a_copy_by_hand_with_everything_that_may_trip_a_script_matches_on_another_cluster_that_has_nothing_of_recoveryd"
)
def test_a_whole_mirror_matches_although_its_offsets_are_others(
    stack: Stack, other: str, mirrored: dict[str, str]
) -> None:
    topic = mirrored["whole"]
    assert offsets(stack.bootstrap, topic, end=True) != offsets(
        other, topic, end=True
    )  # aborted records and markers leave no gaps there

    verification = verified(stack, "whole", topic)

    records = sum(visible(stack.bootstrap, topic).values())
    assert (verification["result"], verification["source_records"], verification["target_records"]) == (
        "match",
        records,
        records,
    )
    assert verification["differences"] == []


@pytest.mark.wide("tests/e2e/test_proof.py::test_each_kind_of_damage_of_a_copy_made_by_hand_is_named_by_command")
def test_records_that_the_mirror_never_got_are_named_one_by_one(stack: Stack, mirrored: dict[str, str]) -> None:
    """They are written to the source after the mirror has stopped."""
    topic = mirrored["holed"]
    producer = writer(stack.bootstrap)
    for number in range(3):
        produce(producer, topic, Draft(1, b"late", b"%d" % number, (), BASE_MS))
    assert producer.flush(60) == 0

    verification = verified(stack, "holed", topic)

    assert (verification["result"], verification["source_records"], verification["target_records"]) == (
        "mismatch",
        6_003,
        6_000,
    )
    told = [(d["kind"], d["source_partition"], d["source_offset"], d["count"]) for d in verification["differences"]]  # type: ignore[attr-defined]
    assert sum(count for *_, count in told) == 3
    assert {(kind, partition) for kind, partition, *_ in told} == {("missing", 1)}
    assert min(offset for _, _, offset, _ in told) == 2_000
