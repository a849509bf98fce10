"""All that this daemon can do, as one tuple. A new capability, or a new kind of recovery, is one line here. What each
of them needs of the config is in `params`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from recoveryd.holds.capability import make_holds
from recoveryd.kernel.capability import Capability
from recoveryd.kernel.decide import Decider
from recoveryd.live.capability import make_live
from recoveryd.params import CapabilityParams
from recoveryd.recovery.capability import make_recoveries
from recoveryd.recovery.draft import Beside
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.replay.kind import REPLAY
from recoveryd.schedules.capability import make_schedules
from recoveryd.units.capability import make_units
from recoveryd.verification.kind import VERIFICATION
from recoveryd.watches.capability import make_watches
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.known import watch_that_stops
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic
from recoveryd.workflows.capability import groups_at_rest, is_wanted, make_workflows, taken_away, told_size, workflow_on
from recoveryd_jobs.contract import JobSpec

KINDS = (REPLAY, VERIFICATION)
DEFAULTS = CapabilityParams()


def make_capabilities(params: CapabilityParams = DEFAULTS) -> Sequence[Capability[Any]]:
    others: tuple[Capability[Any], ...] = (
        make_live(params.live),
        make_units(params.units),
        make_holds(params.holds),
        make_recoveries(params.recoveries, KINDS, Beside(taken_away, is_wanted, told_size, groups_at_rest)),
        make_watches(params.watches, workflow_on),
        make_workflows(
            params.workflows, lambda state, cluster, group: watch_that_stops(state.of(WATCHES), cluster, group)
        ),
    )
    return (*others, make_schedules(params.schedules, others))


def make_status_topic() -> StatusTopic:
    """The form of the status topic, which depends on no parameter."""
    return StatusTopic(make_capabilities())


def make_job(defaults: JobDefaults) -> Callable[[LaunchAttempt], JobSpec]:
    """A function that makes the specification of an attempt's Spark application. It raises KeyError when the plan names
    a cluster that the config no longer has.
    """
    kinds = {kind.name: kind for kind in KINDS}
    return lambda effect: kinds[effect.spec.kind].make_job(effect, effect.spec, defaults)


def make_codec() -> Codec:
    """Records of the control topic; their form depends on no parameter."""
    return Codec(make_capabilities())


def make_decider(params: CapabilityParams) -> Decider:
    return Decider(make_capabilities(params))
