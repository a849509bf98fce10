"""Which partition a key goes to, equal to Kafka's Java producer bit for bit. Pure.

Computed here and not in the client library, because the lane must know the mapped partition of a record before it is
sent: receipts and digests are kept per target partition.
"""

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995
_CACHE_MAX = 65_536
_CACHED_BYTES_MAX = 256  # of a key: so the cache stays below some 25 MB


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class KeyPartitioner:
    """Maps records to `partitions` target partitions, with a bounded cache of short keys.

    A record without a key goes to `(source partition + offset) % partitions`: spread evenly, and to the same partition
    again after a restart.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._known: dict[bytes, int] = {}

    def of_key(self, key: bytes) -> int:
        found = self._known.get(key)
        if found is None:
            if len(key) > _CACHED_BYTES_MAX:
                return partition_for_key(key, self._partitions)
            if len(self._known) >= _CACHE_MAX:
                self._known.clear()
            found = self._known[key] = partition_for_key(key, self._partitions)
        return found

    def of_null(self, source_partition: int, offset: int) -> int:
        return (source_partition + offset) % self._partitions
