"""A kind of recovery: its specification, how its plan is made, and when a plan that waited for approval is out of date.

Everything else (attempts, leases, pausing, stopping, the proof) is the same for all kinds and is in this folder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recoveryd.kernel.refused import Refused
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd.recovery.model import Plan
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd_jobs.contract import JobSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """`begins`: the class of the command that asks for such a recovery; `spec`: the class of its specification. Called
    as `make_plan(spec, facts, params, history of the source)`, `make_job(effect, spec, defaults)`, `stale(plan, spec,
    facts)`.
    """

    name: str
    verb: str
    begins: type
    spec: type
    form: Any  # of the command's data (`recoveryd.wire.forms.VerbForm`)
    make_plan: Callable[[Any, PlanFacts, Params, SampleHistory], Plan | Refused]
    make_job: Callable[[LaunchAttempt, Any, JobDefaults], JobSpec]
    stale: Callable[[Plan, Any, PlanFacts], Refused | None]
