"""Copies that are damaged while nobody looks, proved by the real daemon and real Spark: `failed` with RCV-3007, exit code 9, and the place of the damage.

A replay is paused, the target and its ledger are changed by hand, and it goes on. For copies that were not made by recoveryd there is the command `verify`.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.history import create_topics
from tests.e2e.asking import await_progress
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack
from tests.e2e.tampering import Plain, Tampering, fill

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("daemon")]

_ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count(1)
_DIFFERENCES = 9


def recoveryctl(stack: Stack, *arguments: str) -> tuple[int, str]:
    """(exit code, what it said)."""
    config = str(stack.write_config("cli", 0))
    command = [sys.executable, "-c", "from daemon.cli import main; main()", *arguments, "--config", config]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=_ROOT)
    return done.returncode, done.stdout + done.stderr


def tampered_replay(stack: Stack, source: str, damage: Callable[[Tampering], None], **more: Any) -> Document:
    """A replay that was paused in the middle, while `damage` was done; its last status."""
    recovery = f"damaged{next(_numbers)}"
    target = f"{stack.prefix}{recovery}".replace(".", "-")
    stack.control.replay(recovery, source, target, target_create=True, limits={"max_records_per_s": 1500}, **more)
    await_progress(stack, recovery, 2_000)
    stack.control.command("pause", recovery)
    stack.follower.wait_state(recovery, "paused", 30)
    damage(Tampering(stack, recovery, target))
    stack.control.command("throttle", recovery, {"limits": {"max_records_per_s": None}})
    stack.control.command("resume", recovery)
    return stack.follower.wait_state(recovery, ["completed", "failed"], 120)


def double_what_is_there(tampering: Tampering) -> None:
    tampering.write([r for p in range(4) for r in tampering.stored(p)[:50]])


def call_the_last_records_skipped(tampering: Tampering) -> None:
    """One chunk's receipt names 7 records less; what the copy did with them stays in the target, so it is written by nobody."""

    def hide(receipt: Document) -> Document:
        run = receipt["targets"][0]
        [(first, count)] = run["runs"]
        run |= {"count": count - 7, "runs": [[first, count - 7]], "digest": "0" * 32}
        return receipt | {"copied": receipt["copied"] - 7, "skipped": receipt["skipped"] + 7}

    tampering.rewrite_receipt(hide)


def claim_an_altered_record(tampering: Tampering) -> None:
    """A record with another header stands at the end, and the receipt says that it is the first one of its chunk."""
    receipt = tampering.receipt()
    partition = receipt["targets"][0]["partition"]
    first, count = receipt["targets"][0]["runs"][-1]
    last = next(r for r in tampering.stored(partition) if r.offset == first + count - 1)
    at = tampering.write([Plain(partition, last.key, last.value, last.time_ms, (("h", b"1"),))])

    def move(receipt: Document) -> Document:
        run = receipt["targets"][0]
        runs = [*run["runs"][:-1], [first, count - 1], [at, 1]]
        run["runs"] = [r for r in runs if r[1]]
        return receipt

    tampering.rewrite_receipt(move)


@pytest.mark.parametrize(
    ("damage", "mapping", "kinds"),
    [
        (double_what_is_there, "same", {"extra"}),
        (double_what_is_there, "key_hash", {"extra"}),
        (call_the_last_records_skipped, "same", {"extra", "missing", "ledger"}),
        (claim_an_altered_record, "same", {"extra", "altered", "ledger"}),
    ],
)
def test_a_damaged_copy_fails_with_its_place_and_exit_code_9(
    stack: Stack, plain: str, mapping: str, damage: Callable[[Tampering], None], kinds: set[str]
) -> None:
    ended = tampered_replay(stack, plain, damage, target_mapping=mapping)
    found = ended["verification"]
    assert (ended["state"], ended["error_code"], found["result"], found["scope"]) == (
        "failed",
        "RCV-3007",
        "mismatch",
        "source",
    )
    assert {d["kind"] for d in found["differences"]} <= kinds
    assert {d["kind"] for d in found["differences"]} & {"extra", "missing", "altered"}
    code, said = recoveryctl(stack, "wait", ended["recovery"])
    assert code == _DIFFERENCES, said


GOOD = [Plain(0, f"k{i}".encode(), f"v{i}".encode(), 1_357_000_000_000 + i, (("h", b"1"),)) for i in range(40)]

HAND_MADE: dict[str, tuple[Sequence[Plain], list[tuple[str, int | None, int | None]]]] = {
    "nothing": (GOOD, []),
    "missing": (GOOD[:10] + GOOD[11:], [("missing", 10, None)]),
    "double": (GOOD[:10] + GOOD[9:], [("extra", None, 10)]),
    "swapped": ([*GOOD[:10], GOOD[11], GOOD[10], *GOOD[12:]], [("reordered", 10, 11), ("reordered", 11, 10)]),
    "altered header": ([*GOOD[:3], GOOD[3]._replace(headers=(("h", b"0"),)), *GOOD[4:]], [("altered", 3, 3)]),
    "shifted time": ([*GOOD[:5], GOOD[5]._replace(time_ms=5), *GOOD[6:]], [("altered", 5, 5)]),
    "null to empty": ([*GOOD[:20], GOOD[20]._replace(value=None), *GOOD[21:]], [("altered", 20, 20)]),
    "everything twice": (GOOD + GOOD, [("extra", None, 40)]),
}


@pytest.mark.parametrize("damage", HAND_MADE)
def test_a_copy_made_by_hand_is_verified_by_command(stack: Stack, damage: str) -> None:
    number = next(_numbers)
    source, target = (f"{stack.mark}-hand{number}-{side}" for side in ("a", "b"))
    create_topics(stack.bootstrap, {source: 1, target: 1})
    stored, wanted = HAND_MADE[damage]
    fill(stack.bootstrap, source, GOOD)
    fill(stack.bootstrap, target, stored)
    arguments = [
        "--source",
        source,
        "--target",
        target,
        "--reason",
        "a test",
        "--wait",
        "--yes",
        "-o",
        "json",
        "--id",
        f"hand{number}",
    ]
    code, said = recoveryctl(stack, "verify", *arguments)
    status = stack.follower.wait_state(f"hand{number}", ["completed", "failed"], 60)
    found = status["verification"]
    assert (status["state"], code) == ("completed", _DIFFERENCES if wanted else 0), said
    assert [(d["kind"], d["source_offset"], d["target_offset"]) for d in found["differences"]] == wanted
    assert (found["scope"], whole_log(stack.bootstrap, target)) == ("source", {0: (0, len(stored))})
