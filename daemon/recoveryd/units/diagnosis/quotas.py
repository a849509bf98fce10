"""Whether a quota explains the pace of a unit. A group that a quota slows looks like one that hangs, and needs the
opposite: patience, or another quota, and no restart.

Only quotas on client ids are judged, since brokers do not tell whose user a member is. Brokers count bytes as they lie
in the log, and each broker for itself.
"""

from collections.abc import Sequence
from typing import Final

from recoveryd.units.diagnosis.movement import PartitionMove
from recoveryd.units.diagnosis.seen import Quota, Watched

CONSUME: Final = "consumer_byte_rate"
_PART: Final = 0.5  # of the quota: nobody reads exactly as fast as allowed
_WINDOW_S: Final = 11.0  # over which brokers average, so that a client may have read this long ahead
_GUESS: Final = 2.0  # sizes of what was read are an average over the log
_ONE_FETCH_BYTES: Final = 1_048_576  # what comes at once: less than this need not have come at all


def quota_that_explains(watched: Watched, moves: Sequence[PartitionMove]) -> tuple[Quota, str] | None:
    """The quota on reading that applies to every member, and a sentence, when what was read fits it."""
    members = watched.last.group.members if watched.last.group else ()
    ids = len({member.client_id for member in members})
    records = sum(move.read for move in moves)
    if not ids or (records and watched.bytes_per_record is None):
        return None
    read = records * (watched.bytes_per_record or 0.0)
    for quota in watched.quotas or ():
        if quota.name != CONSUME or quota.clients < ids:
            continue
        allowed = quota.value * ids * watched.brokers
        most = _GUESS * allowed * (watched.seconds + _WINDOW_S)
        least = _PART * allowed * watched.seconds - _ONE_FETCH_BYTES
        if least <= read <= most:
            told = f"{quota.on} may read {quota.value:,.0f} bytes/s, and about {read:,.0f} bytes were read in {watched.seconds:.0f} s"
            return quota, told if read else f"{told}, as little as one that hangs would; a longer look tells"
    return None
