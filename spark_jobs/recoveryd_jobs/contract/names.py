"""Keys, ids, headers and places that daemon and jobs must make and read alike."""

import uuid
import zlib
from collections.abc import Iterable
from typing import Final

_CHUNK_HEADER: Final = "recoveryd-chunk"


def head_key(scope: str, recovery: str, lane: int) -> str:
    return f"{scope}/{recovery}#head/{lane}"


def transactional_id(scope: str, recovery: str, lane: int) -> str:
    """Stable over attempts, so that a newer attempt fences the older one."""
    return f"recoveryd.{scope}.{recovery}.{lane}"


def copy_client_id(scope: str, recovery: str) -> str:
    """`client.id` of every client that moves a recovery's data, in any lane, so that one quota limits their sum.

    No other recovery or client has the same one: a scope has no dot, so the parts cannot be confused.
    """
    return f"recoveryd-copy.{scope}.{recovery}"


def receipts_partition(recovery: str, partitions: int) -> int:
    """All receipts of a recovery live in one partition of the receipts topic, so that a lane reads only that one.

    Call it when the recovery is planned and keep the answer: it changes when the topic gets more partitions.
    """
    return zlib.crc32(recovery.encode()) % partitions


def progress_key(recovery: str, lane: int | None) -> str:
    """Key on the progress topic: one per lane, and one for the driver (`lane` None)."""
    return f"{recovery}/driver" if lane is None else f"{recovery}/lane/{lane}"


def chunk_header(receipts: int) -> tuple[str, bytes]:
    """For each receipt of a chunk with this many: a name that no other chunk and no other try of it has, and the
    number.
    """
    return _CHUNK_HEADER, f"{uuid.uuid4().hex}.{receipts}".encode()


def read_chunk_header(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, int]:
    """The chunk's name and how many receipts it has; ("", 0) where no header says so, as in what earlier releases
    wrote.
    """
    name, _, count = (dict(headers).get(_CHUNK_HEADER) or b"").decode(errors="replace").partition(".")
    return (name, int(count)) if count.isdecimal() else ("", 0)
