"""What a replay costs, from configured prices, and what it needs on disks. Any currency; sizes in bytes, times in
seconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per executor and second, per byte over a priced link (between zones, or out), per byte stored for a
    second, and per second that live traffic is over an SLO.
    """

    executor_s: float = 0.0
    network_byte: float = 0.0
    storage_byte_s: float = 0.0
    slo_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices with the other values of the config that a cost needs: which part of the traffic crosses a priced link,
    and how long a copy is kept.
    """

    prices: Prices = Prices()
    currency: str = ""
    cross_share: float = 1.0
    keep_s: float = 30 * 86_400.0

    @property
    def is_known(self) -> bool:
        """Whether anything has a price."""
        return self.prices != Prices()


@dataclass(frozen=True, slots=True)
class Usage:
    """`cross_share`: part of the traffic that crosses a priced link. `kept_bytes` for `kept_s`: the copy that stays,
    all its replicas.
    """

    executors: int
    seconds: float
    bytes_read: float
    bytes_out: float
    replication_factor: int = 1
    cross_share: float = 0.0
    kept_bytes: float = 0.0
    kept_s: float = 0.0
    slo_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    compute: float
    network_in: float
    network_out: float
    storage: float
    live_impact: float

    @property
    def total(self) -> float:
        return self.compute + self.network_in + self.network_out + self.storage + self.live_impact


def estimate_cost(usage: Usage, prices: Prices) -> Cost:
    """Five amounts, each times its price: executors * seconds, bytes read * cross_share, bytes out * (1 + (replication
    factor - 1) * cross_share), bytes kept * seconds kept, seconds over an SLO.
    """
    copies = 1 + (usage.replication_factor - 1) * usage.cross_share
    return Cost(
        compute=usage.executors * usage.seconds * prices.executor_s,
        network_in=usage.bytes_read * usage.cross_share * prices.network_byte,
        network_out=usage.bytes_out * copies * prices.network_byte,
        storage=usage.kept_bytes * usage.kept_s * prices.storage_byte_s,
        live_impact=usage.slo_s * prices.slo_s,
    )
