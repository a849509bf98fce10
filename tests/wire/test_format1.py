"""Status records as earlier releases really wrote them: nothing in them is lost, and they are written in the present
format from their next change on.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.commands import RefusedCommand
from recoveryd.recovery.model import Attempt, Recovery
from recoveryd.recovery.wire.format1 import COLUMNS
from recoveryd.replay.spec import Replay
from recoveryd.verification.spec import Verify
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import StartWatch
from recoveryd.wire.status_topic import DAEMON_KEY, StatusUnreadable
from recoveryd_jobs.contract import Difference, Verification
from tests.builders.core import CODEC, STATUS, noun_state
from tests.builders.golden import FILES, records
from tests.wire.json_schema import is_valid, load

STATES = {
    "release-0.1.0": {
        "expires": "expired",
        "no-source": "rejected",
        "dry": "planned",
        "fails": "failed",
        "done": "completed",
        "window": "completed",
        "capped": "stopped",
        "waits": "awaiting_approval",
        "refused": "rejected",
        "paused": "paused",
        "follows": "running",
        "catches-up": "paused",
        "w-webhook": "completed",
        "w-waits": "running",
        "w-gone": "failed",
        "w-time": "completed",
        "w-stopped": "stopped",
        "w-offsets": "running",
    },
    "format-1": {"limited": "paused", "checks": "paused", "dry": "planned"},
}


def _documents(file: str) -> list[dict[str, Any]]:
    """Every record of the status topic, also those that a later one replaced."""
    return [json.loads(r.value) for r in records(file, "status") if r.value and r.key != DAEMON_KEY.encode()]


def _written(*, watches: bool) -> list[Any]:
    shown = [(f"{d['recovery']}-{d['version']}", d) for file in FILES for d in _documents(file)]
    return [pytest.param(d, id=name) for name, d in shown if (d["kind"] == "watch") == watches]


RECOVERIES, WATCHES = _written(watches=False), _written(watches=True)
NEVER_USED = {"deadline_ms"}  # of 0.1.0: null in every record
GOOD = next(d for d in _documents("release-0.1.0") if d["recovery"] == "done" and d["state"] == "completed")


@pytest.mark.parametrize("file", FILES)
def test_a_topic_folds_to_the_newest_of_each(file: str) -> None:
    found = STATUS.fold((r.key, r.value) for r in records(file, "status"))
    assert {name: noun_state(noun) for name, noun in found.nouns.items()} == STATES[file]
    newest = json.loads([r.value for r in records(file, "status") if r.key == DAEMON_KEY.encode() and r.value][-1])
    assert found.daemon.applied_control_offset == newest["applied_control_offset"] == len(records(file, "control")) - 1
    assert (found.daemon.epoch, found.daemon.control_topic_id) == (
        newest["epoch"],
        newest["internal"]["control_topic_id"],
    )


@pytest.mark.parametrize("old", [*RECOVERIES, *WATCHES])
def test_people_see_the_same_record(old: dict[str, Any]) -> None:
    now = dict(_leaves(json.loads(STATUS.encode(STATUS.read(old))[1])))
    for path, value in _leaves(old):
        assert path[0] == "internal" or now[path] == value, path
    assert now[("internal", "format")] == 2


@pytest.mark.parametrize("old", RECOVERIES)
def test_nothing_that_only_the_daemon_needs_is_lost(old: dict[str, Any]) -> None:
    recovery, inner = STATUS.read(old), old["internal"]
    assert isinstance(recovery, Recovery)
    assert not any(inner["fields"].get(name) for name in NEVER_USED)
    for name, value in inner["fields"].items():
        assert name in NEVER_USED or _plain(getattr(recovery, name)) == value, name
    for name, value in inner["attempt"].items():
        assert _plain(getattr(recovery.attempt, name)) == value, name
    assert ("plan" in inner) == (recovery.plan is not None)
    if recovery.plan is None:
        return
    columns = {name: [getattr(p, column) for p in recovery.plan.partitions] for column, name in COLUMNS.items()}
    columns["source_partitions"] = recovery.plan.source.partitions
    for name, value in inner["plan"].items():
        assert _plain(columns[name] if name in columns else getattr(recovery.plan, name)) == value, name


@pytest.mark.parametrize("old", WATCHES)
def test_nothing_that_only_the_daemon_needs_of_a_watch_is_lost(old: dict[str, Any]) -> None:
    watch, inner = STATUS.read(old), old["internal"]
    assert isinstance(watch, Watch)
    assert inner.keys() == {"format", "reached", "topic_ids"}
    assert {topic: sorted(found) for topic, found in watch.reached.items()} == inner["reached"]
    assert watch.topic_ids == inner["topic_ids"]


@pytest.mark.parametrize("file", FILES)
def test_what_was_asked_is_what_the_command_said(file: str) -> None:
    found = STATUS.fold((r.key, r.value) for r in records(file, "status") if r.value is not None).nouns
    asked: dict[str, Any] = {}
    for offset, record in enumerate(records(file, "control")):
        command = CODEC.decode(record.key, record.value, record.headers, record.timestamp_ms, offset)
        assert not isinstance(command, RefusedCommand)
        if isinstance(command, Replay | Verify | StartWatch):
            spec: Any = command.spec
            if file == "release-0.1.0" and "verify" not in json.loads(record.value or b"")["data"]:
                spec = replace(spec, verify="digest") if isinstance(command, Replay) else spec  # its default
            asked[command.meta.subject] = spec
    assert {name: noun.spec for name, noun in found.items()} == asked  # type: ignore[attr-defined]


@pytest.mark.parametrize("old", [*RECOVERIES, *WATCHES])
def test_a_record_reads_back_once_it_is_written_anew(old: dict[str, Any]) -> None:
    noun = STATUS.read(old)
    assert STATUS.read(json.loads(STATUS.encode(noun)[1])) == noun


@pytest.mark.parametrize("old", [*RECOVERIES, *WATCHES])
def test_a_record_fits_what_is_documented_now(old: dict[str, Any]) -> None:
    assert is_valid(old, load("status.watch.v1.json" if old["kind"] == "watch" else "status.v1.json"))


def test_what_0_1_0_did_not_know_has_its_default() -> None:
    recovery = STATUS.read(GOOD)
    assert isinstance(recovery, Recovery)
    assert recovery.verification is not None
    assert recovery.plan is not None
    assert "failed_ms" not in GOOD["internal"]["attempt"]
    assert (recovery.attempt.failed_ms, recovery.allowances, recovery.ledger_from) == (Attempt().failed_ms, (), ())
    assert (recovery.verification.scope, recovery.verification.extra_records) == ("", 0)
    assert recovery.plan.receipts is None


def test_differences_of_an_older_release_are_still_read() -> None:
    at = {"partition": 1, "start": 7, "stop": 9, "message": "m"}
    old = {"result": "mismatch", "source_records": 5, "target_records": 4, "digest": "", "why": ""}
    old["differences"] = [at | {"kind": "count"}, at | {"kind": "digest"}, at | {"kind": "missing"}]
    recovery = STATUS.read(GOOD | {"verification": old})
    assert isinstance(recovery, Recovery)
    assert recovery.verification == Verification(
        "mismatch",
        5,
        4,
        "",
        (
            Difference("ledger", 1, 7, None, None, 2, "m"),
            Difference("altered", None, None, 1, 7, 2, "m"),
            Difference("missing", None, None, 1, 7, 2, "m"),
        ),
    )


def test_a_nothing_for_a_number_and_half_a_character_do_not_stop_a_start() -> None:
    odd = json.loads(json.dumps(GOOD | {"why": "half \ud83d of one"}))
    odd["progress"]["records_per_s"] = odd["plan"]["forecast"]["backlog_records"] = None
    recovery = STATUS.fold([(b"done", json.dumps(odd).encode())]).nouns["done"]
    assert isinstance(recovery, Recovery)
    assert recovery.plan is not None
    assert recovery.plan.forecast is not None
    assert (recovery.progress.records_per_s, recovery.plan.forecast.backlog) == (0.0, 0.0)
    assert recovery.why == "half ? of one"


@pytest.mark.parametrize("name", [*(n for n in GOOD if n != "recovery"), *(("internal", n) for n in GOOD["internal"])])
def test_a_broken_record_stops_the_fold_and_is_named(name: str | tuple[str, str]) -> None:
    broken = json.loads(json.dumps(GOOD))
    if isinstance(name, tuple):
        del broken[name[0]][name[1]]
    else:
        del broken[name]
    with pytest.raises(StatusUnreadable, match="done"):
        STATUS.fold([(b"done", json.dumps(broken).encode())])


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is not a container, and every empty container, with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner or value in ({}, []):
        yield path, value
    for name, part in inner:
        yield from _leaves(part, (*path, name))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
