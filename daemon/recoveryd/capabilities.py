"""All that this daemon can do, as one tuple. A new capability, or a new kind of recovery, is one line here."""

from collections.abc import Callable, Sequence
from typing import Any

from recoveryd.holds.capability import make_holds
from recoveryd.holds.params import HoldParams
from recoveryd.kernel.capability import Capability
from recoveryd.kernel.decide import Decider
from recoveryd.live.capability import make_live
from recoveryd.recovery.capability import make_recoveries
from recoveryd.recovery.draft import Beside
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.recovery.params import Params
from recoveryd.replay.kind import REPLAY
from recoveryd.schedules.capability import make_schedules
from recoveryd.schedules.params import ScheduleParams
from recoveryd.units.capability import make_units
from recoveryd.verification.kind import VERIFICATION
from recoveryd.watches.capability import make_watches
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.known import watch_that_stops
from recoveryd.watches.params import WatchParams
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic
from recoveryd.workflows.capability import is_wanted, make_workflows, taken_away, workflow_on
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd_jobs.contract import JobSpec

KINDS = (REPLAY, VERIFICATION)


def make_capabilities(params: Params, webhooks: frozenset[str] = frozenset()) -> Sequence[Capability[Any]]:
    """`webhooks`: the names of those in the config."""
    others: tuple[Capability[Any], ...] = (
        make_live(params.live),
        make_units(params.units),
        make_holds(
            HoldParams(
                clusters=params.clusters,
                own_topics=params.own_topics,
                keep_terminal_ms=params.keep_terminal_ms,
                keep_terminal_most=params.keep_terminal_most,
            )
        ),
        make_recoveries(params, KINDS, Beside(taken_away, is_wanted)),
        make_watches(
            WatchParams(
                clusters=params.clusters,
                webhooks=webhooks,
                own_topics=params.own_topics,
                lag=params.live.lag,
                caught_up_evaluations=params.caught_up_evaluations,
                caught_up_span_ms=params.caught_up_span_ms,
                keep_terminal_ms=params.keep_terminal_ms,
                keep_terminal_most=params.keep_terminal_most,
                units=params.units,
                approvals=params.approvals,
            ),
            workflow_on,
        ),
        make_workflows(
            WorkflowParams(
                clusters=params.clusters,
                units=params.units,
                approvals=params.approvals,
                own_topics=params.own_topics,
                lag=params.live.lag,
                approval_ttl_ms=params.approval_ttl_ms,
                planning_deadline_ms=params.planning_deadline_ms,
                closing_deadline_ms=params.closing_deadline_ms,
                keep_terminal_ms=params.keep_terminal_ms,
                keep_terminal_most=params.keep_terminal_most,
            ),
            lambda state, cluster, group: watch_that_stops(state.of(WATCHES), cluster, group),
        ),
    )
    kept = ScheduleParams(keep_terminal_ms=params.keep_terminal_ms, keep_terminal_most=params.keep_terminal_most)
    return (*others, make_schedules(kept, others))


def make_status_topic() -> StatusTopic:
    """The form of the status topic, which depends on no parameter."""
    return StatusTopic(make_capabilities(Params()))


def make_job(defaults: JobDefaults) -> Callable[[LaunchAttempt], JobSpec]:
    """A function that makes the specification of an attempt's Spark application. It raises KeyError when the plan names
    a cluster that the config no longer has.
    """
    kinds = {kind.name: kind for kind in KINDS}
    return lambda effect: kinds[effect.spec.kind].make_job(effect, effect.spec, defaults)


def make_codec() -> Codec:
    """Records of the control topic; their form depends on no parameter."""
    return Codec(make_capabilities(Params()))


def make_decider(params: Params, webhooks: frozenset[str] = frozenset()) -> Decider:
    return Decider(make_capabilities(params, webhooks))
