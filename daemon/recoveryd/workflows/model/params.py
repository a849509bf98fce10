"""What workflows need of the config."""

from dataclasses import dataclass

from recoveryd.live.params import LiveParams
from recoveryd.units.params import UnitParams


@dataclass(frozen=True, slots=True)
class WorkflowParams(UnitParams):
    """Times in ms. `clusters` are the names in the config. `live`: how the lag of each group is told."""

    clusters: frozenset[str] = frozenset({"main"})
    own_topics: frozenset[str] = frozenset()
    live: LiveParams = LiveParams()
    approval_ttl_ms: int = 86_400_000
    approval_above_bytes: int | None = None
    approval_above_records: int | None = None
    keep_terminal_ms: int = 90 * 86_400_000
    keep_terminal_most: int = 1_000
    empty_wait_ms: int = 600_000
    ack_wait_ms: int = 86_400_000
    ready_wait_ms: int = 1_800_000  # without progress
    look_every_ms: int = 2_000
    unanswered_every_ms: int = (
        30_000  # a look that is not answered is repeated so often, once it was tried at shorter times
    )
    remind_every_ms: int = 30_000  # of a command that nobody has read yet
    no_answer_ms: int = 120_000  # an effect of which nothing is heard is wanted again
    close_every_ms: int = 60_000
    closing_deadline_ms: int = 86_400_000
    planning_deadline_ms: int = 60_000
    tries_most: int = 5
    active_most: int = 50
