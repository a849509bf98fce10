"""The journal: one writer, whole batches, and a fold that gives back what was written."""

import asyncio
import json
from dataclasses import replace

import pytest

from recoveryd.adapters.memory import MemoryRecord
from recoveryd.errors import Fenced, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import idempotency_key
from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.events import ControlUnreadable, Seen
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import State
from recoveryd.ports import Folded, JournalBatch
from recoveryd.wire.bounded_json import content_hash
from tests.builders.core import CODEC, NOW_MS
from tests.builders.records import make_directive, make_recovery
from tests.contract.harness import Harness
from tests.contract.journals import commit, opened

RECORD = DaemonRecord(applied_control_offset=41, epoch=3, control_topic_id="control-id", updated_ms=NOW_MS)


async def test_a_new_journal_folds_to_nothing(harness: Harness) -> None:
    journal = harness.journal()
    assert await opened(journal) == Folded()
    await journal.close()


async def test_what_one_leader_commits_the_next_one_folds(harness: Harness) -> None:
    first, second = harness.journal(), harness.journal()
    recovery = make_recovery("r1", state=State.PAUSED, version=9)
    await opened(first)
    await commit(
        first, JournalBatch(changed=[make_recovery("r1"), make_recovery("r2")], directives=[make_directive("r1", 4)])
    )
    await commit(first, JournalBatch(changed=[recovery], daemon=RECORD, directives=[make_directive("r1", 5)]))

    expected = Folded({"r2": make_recovery("r2"), "r1": recovery}, RECORD, {}, {"r1": 5})
    assert await opened(second) == expected
    await first.close()
    await second.close()


async def test_what_is_committed_to_topics_that_got_more_partitions_lies_where_the_next_leader_reads(
    harness: Harness,
) -> None:
    names = harness.names
    single = (names.status, names.events, names.directives, names.dlq)
    for name in single:
        harness.widen(name, 8)
    first, second = harness.journal(), harness.journal()
    await opened(first)
    await commit(
        first,
        JournalBatch(
            changed=[make_recovery("r1"), make_recovery("r2")],
            daemon=RECORD,
            notices=[Notice("recovery_planned", "r1", {}, "c1")],
            directives=[make_directive("r1", 4), make_directive("r2", 5)],
            dead_letters=[ControlUnreadable(0, 7, Code.NOT_A_CLOUDEVENT.value, "it is not JSON", b"k", b"\xff", ())],
        ),
    )
    found = await opened(second)
    assert (list(found.nouns), found.daemon, found.directive_sequences) == (["r1", "r2"], RECORD, {"r1": 4, "r2": 5})
    assert [len(harness.read(name)) for name in single] == [3, 1, 2, 1]
    await first.close()
    await second.close()


async def test_another_leader_is_seen_where_the_status_topic_got_more_partitions(harness: Harness) -> None:
    first, second = harness.journal(), harness.journal()
    await opened(first)
    harness.widen(harness.names.status, 8)
    await opened(second)
    await commit(second, JournalBatch(daemon=RECORD))
    with pytest.raises(Fenced):
        await commit(first, JournalBatch(changed=[make_recovery("r1")]))
    await first.close()
    await second.close()


async def test_a_journal_that_was_opened_again_goes_on(harness: Harness) -> None:
    journal = harness.journal()
    await opened(journal)
    await commit(journal, JournalBatch(changed=[make_recovery("r1")]))
    await opened(journal)
    await commit(journal, JournalBatch(changed=[make_recovery("r2")]))
    assert list((await opened(journal)).nouns) == ["r1", "r2"]
    await journal.close()


async def test_a_new_leader_shuts_out_the_earlier_one_and_nothing_of_its_batch_is_seen(harness: Harness) -> None:
    old, new = harness.journal(), harness.journal()
    await opened(old)
    await commit(old, JournalBatch(changed=[make_recovery("r1")]))
    await opened(new)
    await commit(new, JournalBatch(daemon=RECORD))
    with pytest.raises(Fenced):
        await commit(old, JournalBatch(changed=[make_recovery("late")], notices=[Notice("late", "late", {})]))
    with pytest.raises(Fenced):
        await commit(old, JournalBatch(changed=[make_recovery("later")]))

    await commit(new, JournalBatch(changed=[make_recovery("r2")]))
    assert [r.key for r in harness.read(harness.names.status)] == [b"r1", b"_daemon", b"r2"]
    assert harness.read(harness.names.events) == []
    await old.close()
    await new.close()


async def test_every_part_of_a_batch_lands_on_its_topic(harness: Harness) -> None:
    journal, names = harness.journal(), harness.names
    letter = ControlUnreadable(0, 7, Code.NOT_A_CLOUDEVENT.value, "it is not JSON", b"k", b"\xff\x00", (("h", None),))
    await opened(journal)
    await commit(
        journal,
        JournalBatch(
            changed=[make_recovery("r1")],
            daemon=RECORD,
            answers=[Answer("accepted", "replay", "c1", "r1", "", "planned", "", 7)],
            notices=[Notice("recovery_planned", "r1", {"records_at_most": 5}, "c1")],
            directives=[make_directive("r1", 1)],
            dead_letters=[letter],
        ),
    )
    await journal.close()

    events = [json.loads(r.value or b"") for r in harness.read(names.events)]
    assert [(e["type"], e["subject"], e["causationid"]) for e in events] == [
        ("io.recoveryd.event.command_accepted.v1", "r1", "c1"),
        ("io.recoveryd.event.recovery_planned.v1", "r1", "c1"),
    ]
    assert [r.key for r in harness.read(names.status)] == [b"r1", b"_daemon"]
    assert [r.key for r in harness.read(names.directives)] == [b"r1"]
    [dead] = harness.read(names.dlq)
    assert (dead.key, dead.value, dead.headers[0]) == (b"k", b"\xff\x00", ("h", None))
    assert dict(dead.headers)["recoveryd-error-code"] == b"RCV-1001"


async def test_commands_up_to_the_applied_offset_are_known_again(harness: Harness) -> None:
    commands = [_command("c0", "r1"), _signal(), _unreadable(), _command("c0", "r1"), _command("c4", "r2")]
    refused = MemoryRecord(None, _event("c5", "io.recoveryd.command.replay.v1", {"reason": "x", "sorce": {}}), NOW_MS)
    harness.write(harness.names.control, [*commands, refused, _command("c6", "r3")])
    journal = harness.journal()
    await opened(journal)
    await commit(journal, JournalBatch(daemon=replace(RECORD, applied_control_offset=5)))

    seen = (await opened(journal)).seen
    await journal.close()
    digest = content_hash("io.recoveryd.command.pause.v1", "r1", {"reason": "because"})
    assert seen[idempotency_key("//test", "c0")] == Seen(0, digest)
    assert {key: entry.offset for key, entry in seen.items()} == {
        idempotency_key("//test", "c0"): 0,
        idempotency_key("//test", "c4"): 4,
        idempotency_key("//test", "c5"): 5,
    }


async def test_a_command_in_an_open_transaction_was_decided_on_and_keeps_no_leader_from_starting(
    harness: Harness,
) -> None:
    """The feed shows it at once, so the journal may say that it is applied."""
    journal = harness.journal()
    await opened(journal)
    await commit(journal, JournalBatch(daemon=replace(RECORD, applied_control_offset=0)))
    with harness.open_transaction(harness.names.control, record=_command("c0", "r1")):
        seen = (await asyncio.wait_for(opened(journal), 60)).seen
    await journal.close()
    assert list(seen) == [idempotency_key("//test", "c0")]


async def test_a_status_record_it_cannot_read_keeps_a_leader_from_starting(harness: Harness) -> None:
    harness.write(harness.names.status, [MemoryRecord(b"r1", b'{"recovery": "r1"', harness.now_ms())])
    journal = harness.journal()
    with pytest.raises(RecoverydError) as caught:
        await opened(journal)
    await journal.close()
    assert caught.value.code is Code.INVARIANT_BROKEN
    assert "r1" in caught.value.message


async def test_a_journal_that_is_not_open_takes_nothing(harness: Harness) -> None:
    journal = harness.journal()
    with pytest.raises(RecoverydError) as caught:
        await journal.commit(JournalBatch(daemon=RECORD))
    await journal.close()
    assert caught.value.code is Code.INVARIANT_BROKEN


def _command(command_id: str, subject: str) -> MemoryRecord:
    made = CODEC.encode("pause", subject, {"reason": "because"}, id=command_id, source="//test", time_ms=NOW_MS)
    return MemoryRecord(made.key, made.value, NOW_MS, made.headers)  # type: ignore[union-attr]


def _event(event_id: str, kind: str, data: object) -> bytes:
    return json.dumps(
        {"specversion": "1.0", "id": event_id, "source": "//test", "type": kind, "subject": "r9", "data": data}
    ).encode()


def _signal() -> MemoryRecord:
    return MemoryRecord(None, _event("s1", "io.recoveryd.signal.lag.v1", {}), NOW_MS)


def _unreadable() -> MemoryRecord:
    return MemoryRecord(None, b"not json", NOW_MS)
