"""The specification from which the application of a replay starts."""

from dataclasses import replace

from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults, control_of, make_lanes, source_of, target_of
from recoveryd.recovery.spec import Never
from recoveryd.replay.spec import ReplaySpec
from recoveryd_jobs.contract import JobSpec


def make_job_spec(effect: LaunchAttempt, spec: ReplaySpec, defaults: JobDefaults) -> JobSpec:
    """Raises KeyError when the plan names a cluster that the config no longer has."""
    plan = effect.plan
    follows_all = plan.is_following and spec.source.partitions is None
    return JobSpec(
        kind=spec.kind,
        scope=defaults.scope,
        recovery=effect.recovery,
        attempt=effect.attempt,
        lanes=make_lanes(effect),
        source=replace(source_of(plan, defaults), partitions=plan.source.partitions if follows_all else 0),
        target=replace(target_of(plan, spec, defaults), exclusive=not spec.appends),
        control=control_of(defaults),
        receipts_topic=defaults.receipts_topic if plan.receipts is None else plan.receipts.topic,
        directive=effect.directive,
        verify=spec.verify,
        on_data_loss=spec.on_data_loss,
        chunk=defaults.chunk,
        transaction_timeout_ms=defaults.transaction_timeout_ms,
        stop_wait_ms=defaults.stop_wait_ms,
        is_endless=isinstance(spec.source.stop, Never),
        orphan_after_ms=defaults.orphan_after_ms,
        receipts=plan.receipts,
    )
