"""What of the state belongs to recoveries. The recoveries are journaled; all else is soft and rebuilt from the world after a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.state import Slot
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.quota_book import QuotaBook
from recoveryd.recovery.recoveries import Recoveries


@dataclass(frozen=True, slots=True)
class Forgetting:
    """`asked_ms`: clusters whose receipts of ended recoveries are being taken away, and since when; one that does not answer keeps its own only."""

    asked_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecoverySlice:
    """`observed` is of live recoveries only."""

    recoveries: Recoveries = field(default_factory=Recoveries)
    observed: Mapping[str, Observed] = field(default_factory=dict)
    quotas: QuotaBook = QuotaBook()
    forgetting: Forgetting = Forgetting()

    def is_same(self, other: "RecoverySlice") -> bool:
        """Whether all parts are the very values of the other: told at once, however many recoveries there are."""
        return (
            self.recoveries is other.recoveries
            and self.observed is other.observed
            and self.quotas is other.quotas
            and self.forgetting is other.forgetting
        )


RECOVERY = Slot("recovery", RecoverySlice())
