"""The specification from which the application of a verification starts. Nothing is copied and there are no receipts,
so its one lane only names the ranges of the source.
"""

from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults, control_of, source_of, target_of
from recoveryd.verification.spec import VerificationSpec
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange


def make_job_spec(effect: LaunchAttempt, spec: VerificationSpec, defaults: JobDefaults) -> JobSpec:
    """Raises KeyError when the plan names a cluster that the config no longer has."""
    ranges = tuple(PartitionRange(p.partition, p.start, p.stop) for p in effect.plan.partitions)
    return JobSpec(
        kind=spec.kind,
        scope=defaults.scope,
        recovery=effect.recovery,
        attempt=effect.attempt,
        lanes=(LaneSpec(0, ranges),),
        source=source_of(effect.plan, defaults),
        target=target_of(effect.plan, spec, defaults),
        control=control_of(defaults),
        receipts_topic="",
        directive=effect.directive,
        compare=spec.compare,
        stop_wait_ms=defaults.stop_wait_ms,
        orphan_after_ms=defaults.orphan_after_ms,
    )
