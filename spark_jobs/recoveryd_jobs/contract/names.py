"""Keys, ids and places that daemon and jobs must make alike."""

import zlib


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
