"""The data of `schedule`: what is taken, and the code and next step of what is not."""

from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.schedules.spec import EndSchedule, ScheduledCommand, ScheduleSpec, StartSchedule
from recoveryd.wire.codec import EncodedCommand
from tests.builders.core import CODEC, NOW_MS
from tests.schedules.world import CONTINUED, REPLAY

GOOD: dict[str, Any] = {"reason": "r", "cron": "0 2 * * *", "command": {"verb": "replay", "data": REPLAY}}


def decoded(data: dict[str, Any], verb: str = "schedule") -> Any:
    made = CODEC.encode(verb, "nightly", data, id="c1", source="//ops/alice", time_ms=NOW_MS)
    if isinstance(made, RefusedCommand):
        return made
    assert isinstance(made, EncodedCommand)
    return CODEC.decode(made.key, made.value, made.headers, NOW_MS, 0)


def sent(verb: str = "replay", data: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return GOOD | {"command": {"verb": verb, "data": REPLAY if data is None else data, **more}}


def test_what_is_left_out_has_its_default() -> None:
    found = decoded(GOOD)
    assert isinstance(found, StartSchedule)
    assert found.spec == ScheduleSpec("0 2 * * *", ScheduledCommand("replay", {"reason": "r", **REPLAY}))


def test_everything_can_be_said() -> None:
    data = GOOD | {"time_zone": "Europe/Berlin", "overrun": "queue", "max_runtime": "4h"}
    command = {"verb": "pause", "subject": "big", "data": {"reason": "the night is over"}}
    found = decoded(data | {"command": {"verb": "replay", "data": CONTINUED}})
    assert (found.spec.time_zone, found.spec.overrun, found.spec.max_runtime_ms) == (
        "Europe/Berlin",
        "queue",
        14_400_000,
    )
    steering = decoded(GOOD | {"command": command})
    assert steering.spec.command == ScheduledCommand("pause", {"reason": "the night is over"}, "big")
    assert isinstance(decoded({"reason": "r"}, "unschedule"), EndSchedule)


def continued(start: object, **target: Any) -> dict[str, Any]:
    data = {"source": REPLAY["source"] | {"from": start}, "target": REPLAY["target"] | target}
    return sent(data=data)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (GOOD | {"cron": "nonsense"}, Code.INVALID_VALUE, "data.cron"),
        (GOOD | {"cron": "* * * * * *"}, Code.INVALID_VALUE, "6 fields"),
        (GOOD | {"cron": "0 0 31 2 *"}, Code.INVALID_VALUE, "data.cron"),
        (GOOD | {"cron": 5}, Code.INVALID_VALUE, "data.cron"),
        (GOOD | {"time_zone": "Europe/Atlantis"}, Code.INVALID_VALUE, "IANA"),
        (GOOD | {"time_zone": "../../etc/passwd"}, Code.INVALID_VALUE, "IANA"),
        (GOOD | {"overrun": "alert"}, Code.INVALID_VALUE, "skip, queue"),
        (GOOD | {"max_runtime": "0s"}, Code.INVALID_VALUE, "max_runtime"),
        (GOOD | {"max_runtime": 5}, Code.INVALID_VALUE, "max_runtime"),
        (GOOD | {"crom": "* * * * *"}, Code.UNKNOWN_FIELD, "crom"),
        ({"reason": "r", "cron": "* * * * *"}, Code.MISSING_FIELD, "data.command"),
        (sent("replai"), Code.INVALID_VALUE, "replai"),
        (sent("schedule", GOOD), Code.INVALID_VALUE, "schedule"),
        (sent("approve", {"plan_hash": "x"}, subject="big"), Code.INVALID_VALUE, "approve"),
        (sent("pause", {}), Code.MISSING_FIELD, "subject"),
        (sent("pause", {}, subject="Not An Id"), Code.INVALID_VALUE, "subject"),
        (sent(subject="big"), Code.INVALID_VALUE, "id of its own"),
        (sent(data={"source": REPLAY["source"]}), Code.MISSING_FIELD, "command.data.target"),
        (sent(data=REPLAY | {"sauce": 1}), Code.UNKNOWN_FIELD, "command.data.sauce"),
        (sent(data=REPLAY | {"limits": {"max_runtime": "soon"}}) | {"max_runtime": "5s"}, Code.INVALID_VALUE, "limit"),
        (sent("pause", {}, subject="big") | {"max_runtime": "5s"}, Code.INVALID_VALUE, "no limits"),
        (continued({"schedule": "last_start"}), Code.INVALID_VALUE, "last_start"),
        (continued({"schedule": "last_end", "frist": "earliest"}), Code.INVALID_VALUE, "frist"),
        (continued({"schedule": "last_end", "first": "latest"}), Code.INVALID_VALUE, "latest"),
        (continued({"schedule": "last_end"}, on_existing="refuse"), Code.INVALID_VALUE, "continue each other"),
        (sent("verify", {"source": CONTINUED["source"], "target": {"topic": "t"}}), Code.INVALID_VALUE, "continues nothing"),
        (sent(data=CONTINUED | {"dry_run": True}), Code.INVALID_VALUE, "dry run"),
        (sent(data=REPLAY | {"limits": 5}) | {"max_runtime": "5s"}, Code.INVALID_VALUE, "limits"),
        (sent(data=REPLAY | {"source": "flights"}), Code.INVALID_VALUE, "source"),
        (sent("savepoint", {"unit": "app", "name": "n" * 128}), Code.INVALID_VALUE, "name"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_its_place_and_a_next_step(data: dict[str, Any], code: Code, words: str) -> None:
    refused = decoded(data)
    assert isinstance(refused, RefusedCommand), refused
    assert (refused.code, words in refused.message) == (code.value, True), refused.message
    assert refused.hint


def test_a_start_at_the_last_end_is_only_for_schedules() -> None:
    refused = decoded({"reason": "r", **CONTINUED}, "replay")
    assert isinstance(refused, RefusedCommand)


@pytest.mark.parametrize(
    ("start", "is_taken"),
    [
        ({"offsets": {"0": 5}, "others": "earliest", "topic_id": "NXPctNTfS96+TkD0OJ/tCQ"}, True),
        ({"offsets": {"0": 5}, "others": "earliest"}, True),
        ({"offsets": {"0": 5}, "others": "latest"}, False),
        ({"offsets": {"0": 5}, "topic_id": 5}, False),
        ({"offsets": {"0": 5}, "topic": "x"}, False),
        ({"offsets": {}, "others": "earliest"}, False),
    ],
)
def test_offsets_may_say_what_of_other_partitions_and_which_topic(start: object, is_taken: bool) -> None:
    found = decoded({"reason": "r", **REPLAY, "source": REPLAY["source"] | {"from": start}}, "replay")
    assert isinstance(found, RefusedCommand) is not is_taken, found
