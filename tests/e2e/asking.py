"""Small queries that end-to-end tests make on a running stack: what a target holds, how fast lanes are, their
positions.
"""

import time
from collections.abc import Mapping

from tests.e2e.clients import writer
from tests.e2e.data import write_plain
from tests.e2e.follower import Document
from tests.e2e.ledger import read_receipts
from tests.e2e.log_reader import is_known, offsets, read_log
from tests.e2e.stack import Stack


def accepted(stack: Stack, command_id: str) -> bool:
    return bool(stack.follower.wait_answer(command_id)["type"] == "io.recoveryd.event.command_accepted.v1")


def copied(stack: Stack, target: str) -> int:
    """Visible records of the target; 0 while it does not exist."""
    if not is_known(stack.bootstrap, target):
        return 0
    try:
        return sum(len(records) for records in read_log(stack.bootstrap, target, _stable(stack, target)).values())
    except AssertionError:
        return 0


def _stable(stack: Stack, target: str) -> dict[int, tuple[int, int]]:
    return {p: (0, end) for p, end in offsets(stack.bootstrap, target, end=True, committed=True).items()}


def positions(status: Document) -> dict[int, int]:
    return {p["partition"]: p["position"] for p in status["progress"]["partitions"]}


def receipts_end(stack: Stack, recovery: str, starts: Mapping[int, int]) -> dict[int, int]:
    """Where the newest receipt of each partition ends; `starts` where a partition has none yet."""
    found = dict(starts)
    for receipt in read_receipts(stack.bootstrap, stack.receipts_topic, recovery):
        found[receipt.partition] = max(receipt.stop, found.get(receipt.partition, 0))
    return found


def lane_progress(stack: Stack, recovery: str) -> list[tuple[float, int]]:
    """(time, records of all lanes so far) after each heartbeat. The number never falls, although lanes that verify
    later begin to count anew.
    """
    newest: dict[int, int] = {}
    found = []
    for at_s, beat in stack.follower.heartbeats(recovery, driver=False):
        newest[beat["lane"]] = max(newest.get(beat["lane"], 0), sum(p["copied"] for p in beat["positions"]))
        found.append((at_s, sum(newest.values())))
    return found


def await_progress(stack: Stack, recovery: str, records: int, deadline_s: float = 60.0) -> None:
    stack.follower.wait(
        lambda: (lane_progress(stack, recovery) or [(0, 0)])[-1][1] >= records,
        deadline_s,
        f"{records} records of {recovery}",
    )


def read_at_rest(stack: Stack, recovery: str) -> int:
    """Records read by all tasks of a paused verification, once each of them has said that it is paused."""

    def look() -> dict[int, Document]:
        newest = {beat["lane"]: beat for _, beat in stack.follower.verifying(recovery)}
        return newest if newest and all(beat["state"] == "paused" for beat in newest.values()) else {}

    found = stack.follower.wait(look, 30.0, f"all tasks of {recovery} at rest")
    return sum(beat["verified_records"] for beat in found.values())


def newest_lane_states(stack: Stack, recovery: str) -> set[str]:
    newest: dict[int, str] = {}
    for _, beat in stack.follower.heartbeats(recovery, driver=False):
        newest[beat["lane"]] = beat["state"]
    return set(newest.values())


def fill_one_partition(stack: Stack, topic: str, partition: int, records: int) -> None:
    write_plain(writer(stack.bootstrap), topic, [partition], range(records))


def iso(time_ms: int) -> str:
    seconds, ms = divmod(time_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"
