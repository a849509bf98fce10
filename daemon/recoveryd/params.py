"""What each capability needs of the config, together. A new capability with numbers of its own has a field here, and a
function in `settings/params.py` that reads it from the config.

No number stands here, only where each capability keeps its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from recoveryd.holds.params import HoldParams
from recoveryd.live.params import LiveParams
from recoveryd.recovery.params import Params
from recoveryd.schedules.params import ScheduleParams
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.model import Unit
from recoveryd.watches.params import WatchParams
from recoveryd.workflows.model.params import WorkflowParams


class KeptParams(TypedDict):
    """How long what has ended is kept."""

    keep_terminal_ms: int
    keep_terminal_most: int


class NameParams(TypedDict):
    """Names of the config."""

    clusters: frozenset[str]
    own_topics: frozenset[str]


class KnownUnitParams(TypedDict):
    """The units, and who may approve what is done to them."""

    units: Mapping[str, Unit]
    approvals: tuple[ApprovalRule, ...]


@dataclass(frozen=True, slots=True)
class CapabilityParams:
    """By capability. Frozen for the life of a daemon; every default is the documented one."""

    live: LiveParams = LiveParams()
    units: Mapping[str, Unit] = field(default_factory=dict)
    holds: HoldParams = HoldParams()
    recoveries: Params = Params()
    watches: WatchParams = WatchParams()
    workflows: WorkflowParams = WorkflowParams()
    schedules: ScheduleParams = ScheduleParams()


def params_beside(given: Params, webhooks: frozenset[str] = frozenset()) -> CapabilityParams:
    """Those of all capabilities beside these of recoveries, as far as they say the same: what histories of earlier
    releases hold. How long a workflow may close is not among it any more, and is the default.
    """
    names = NameParams(clusters=given.clusters, own_topics=given.own_topics)
    kept = KeptParams(keep_terminal_ms=given.keep_terminal_ms, keep_terminal_most=given.keep_terminal_most)
    known = KnownUnitParams(units=given.units, approvals=given.approvals)
    return CapabilityParams(
        live=given.live,
        units=given.units,
        holds=HoldParams(**names, **kept),
        recoveries=given,
        watches=WatchParams(
            **names,
            **kept,
            **known,
            live=given.live,
            webhooks=webhooks,
            caught_up_evaluations=given.caught_up_evaluations,
            caught_up_span_ms=given.caught_up_span_ms,
        ),
        workflows=WorkflowParams(
            **names,
            **kept,
            **known,
            live=given.live,
            approval_ttl_ms=given.approval_ttl_ms,
            approval_above_bytes=given.approval_above_bytes,
            approval_above_records=given.approval_above_records,
            planning_deadline_ms=given.planning_deadline_ms,
        ),
        schedules=ScheduleParams(**kept),
    )
