"""The part of the state that belongs to recoveries. The recoveries are journaled; all else is observed again after a
restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.state import Slot
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.quota_book import QuotaBook
from recoveryd.recovery.recoveries import Recoveries


@dataclass(frozen=True, slots=True)
class Forgetting:
    """`under_way`: clusters on which receipts of ended recoveries are being deleted; nothing more is asked of them
    until they answered. `not_before_ms`: by cluster, when to try again after a failure.
    """

    under_way: frozenset[str] = frozenset()
    not_before_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecoverySlice:
    """`observed` holds live recoveries only. `is_leaving`: this daemon will end, so nothing more may begin.
    `measured_bytes_per_s`: what unlimited recoveries reached lately, None = nothing measured yet.
    """

    recoveries: Recoveries = field(default_factory=Recoveries)
    observed: Mapping[str, Observed] = field(default_factory=dict)
    quotas: QuotaBook = QuotaBook()
    forgetting: Forgetting = Forgetting()
    is_leaving: bool = False
    measured_bytes_per_s: float | None = None

    def is_same(self, other: "RecoverySlice") -> bool:
        """Whether all parts are the same objects as in `other`, at a cost that no number of recoveries raises."""
        return (
            self.recoveries is other.recoveries
            and self.observed is other.observed
            and self.quotas is other.quotas
            and self.forgetting is other.forgetting
            and self.is_leaving == other.is_leaving
            and self.measured_bytes_per_s == other.measured_bytes_per_s
        )


RECOVERY = Slot("recovery", RecoverySlice())
