"""Reading a part of the control topic as it is."""

from recoveryd.adapters.memory import MemoryRecord
from recoveryd.ports import ControlRecord
from tests.contract.harness import Harness


async def read(harness: Harness, start: int, stop: int | None) -> list[ControlRecord]:
    return [record async for page in harness.control_log().pages(start, stop) for record in page]


async def test_records_come_as_they_were_written(harness: Harness) -> None:
    written = [MemoryRecord(b"k", b"v", harness.now_ms(), (("a", b"1"), ("a", None))), MemoryRecord(None, None)]
    harness.write(harness.names.control, written)
    found = await read(harness, 0, None)
    assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in found] == [
        (0, 0, b"k", b"v", (("a", b"1"), ("a", None))),
        (0, 1, None, None, ()),
    ]


async def test_only_the_asked_part_that_is_still_there_comes(harness: Harness) -> None:
    harness.write(harness.names.control, [MemoryRecord(None, b"%d" % i, harness.now_ms()) for i in range(10)])
    harness.truncate(harness.names.control, 4)
    assert [r.value for r in await read(harness, 0, 7)] == [b"4", b"5", b"6"]
    assert [r.offset for r in await read(harness, 8, None)] == [8, 9]
    assert await read(harness, 10, None) == []
    assert await read(harness, 5, 5) == []
