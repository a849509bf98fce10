"""Numbers and names that recoveries use. Frozen for the life of a daemon, made from the config; every default is the
documented one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.forecast.cost import Pricing
from recoveryd.live.params import ControlParams, LiveParams
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.model import Unit

_GRACE_LEAST_MS = 10_000
LEAVE_FACTOR = 3  # who has caught up does so still while so many graces behind


@dataclass(frozen=True, slots=True)
class Params:
    """Times in ms, sizes in bytes. `profiles` and `clusters`: the names in the config; `own_topics`: the names of
    recoveryd's own topics.
    """

    profiles: frozenset[str] = frozenset({"default"})
    clusters: frozenset[str] = frozenset({"main"})
    own_topics: frozenset[str] = frozenset()

    max_active_recoveries: int = 50
    max_planned_dry_runs: int = 1_000  # at once; a script may ask for the plans of many topics
    approval_above_bytes: int | None = None
    approval_above_records: int | None = None
    approval_of_unknown_readers: bool = True
    approval_ttl_ms: int = 24 * 3_600_000

    lease_ttl_ms: int = 30_000
    lease_renew_ms: int = 8_000
    floor_bytes_per_s: float = 65_536.0

    chunk_max_ms: int = 5_000
    max_failures: int = 5
    max_failures_per_hour: int = 20
    max_failed_chunks_per_hour: int = 200  # of one lane
    backoff_first_ms: int = 1_000
    backoff_max_ms: int = 60_000
    adopt_wait_ms: int = 10_000
    launch_timeout_ms: int = 90_000
    heartbeat_timeout_ms: int = 20_000
    drain_timeout_ms: int = 60_000
    effect_retry_ms: int = 2_000
    facts_retry_ms: int = 15_000
    ledger_retry_ms: int = 15_000
    paused_keep_application_ms: int = 600_000
    stall_after_ms: int = 600_000
    stop_wait_ms: int = 600_000
    progress_status_ms: int = 2_000
    same_status_ms: int = 20_000  # how often progress is journaled that has not changed
    planning_deadline_ms: int = 60_000
    ledger_deadline_ms: int = 120_000
    exit_report_wait_ms: int = 2_000

    sample_period_ms: int = 5_000
    caught_up_evaluations: int = 3
    caught_up_span_ms: int = 30_000

    eta_bytes_per_s: float = 30e6
    remote_bytes_per_s: float = 10e6
    pricing: Pricing = Pricing()
    quotas_enabled: bool = False
    keep_terminal_ms: int = 90 * 86_400_000
    keep_terminal_most: int = 1_000

    control: ControlParams = ControlParams()
    live: LiveParams = LiveParams()
    units: Mapping[str, Unit] = field(default_factory=dict)
    approvals: tuple[ApprovalRule, ...] = ()

    @property
    def head_grace_ms(self) -> int:
        """How late a copy may be that keeps up with a live head: it makes durable once in a chunk what it has read."""
        return head_grace_ms(self.chunk_max_ms, self.sample_period_ms)

    @property
    def looks_ms(self) -> int:
        """How long a look at the source that is newer than an end is waited for at least: three sample periods."""
        return 3 * self.sample_period_ms


def head_grace_ms(chunk_max_ms: int, sample_period_ms: int) -> int:
    return max(chunk_max_ms + sample_period_ms, 2 * chunk_max_ms, _GRACE_LEAST_MS)
