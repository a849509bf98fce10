"""Whether a command may start a recovery, judged before any cluster is asked."""

from collections.abc import Iterable

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refusals import internal_topic, refuse_cluster
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import State
from recoveryd.recovery.case import Case
from recoveryd.recovery.impact import approval_for_impact
from recoveryd.recovery.model import ACTIVE, Plan, Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Spec
from recoveryd.recovery.told_size import SizeLimits, ToldSize, approval_for_size


def refuse_recovery(spec: Spec, recoveries: Iterable[Recovery], params: Params) -> Refused | None:
    """Why the command may not be planned, or None. Its clusters and profile must be in the config. recoveryd's own
    topics are never source or target; topics whose names start with `_` only for a recovery that does not copy.
    """
    for field, cluster in (("source.cluster", spec.source.cluster), ("target.cluster", spec.target.cluster)):
        unknown = refuse_cluster(cluster, params.clusters, field)
        if unknown is not None:
            return unknown
    if spec.profile not in params.profiles:
        return Refused(
            Code.UNKNOWN_PROFILE,
            f"job.profile: the config has no profile {spec.profile!r}",
            nearest_name(spec.profile, params.profiles),
        )
    for field, topic in (("source.topic", spec.source.topic), ("target.topic", spec.target.topic)):
        if topic in params.own_topics or (spec.copies and topic.startswith("_")):
            return internal_topic(topic, field)
    if spec.source.cluster == spec.target.cluster and spec.source.topic == spec.target.topic:
        return Refused(Code.SAME_TOPIC, f"source and target are both {spec.source.topic}")
    return refuse_dry_run(recoveries, params) if spec.dry_run else refuse_over_limit(recoveries, params)


def refuse_over_limit(recoveries: Iterable[Recovery], params: Params) -> Refused | None:
    """The refusal where as many recoveries as the config allows work, or will without anybody's word; or None."""
    busy = sum(1 for r in recoveries if _is_busy(r))
    if busy < params.max_active_recoveries:
        return None
    message = f"{busy} recoveries are active, the config allows {params.max_active_recoveries}"
    return Refused(Code.TOO_MANY_RECOVERIES, message)


def _is_busy(recovery: Recovery) -> bool:
    is_approved = recovery.state is State.AWAITING_APPROVAL and bool(recovery.approved)
    is_planning = recovery.state is State.PLANNING and not recovery.spec.dry_run
    return recovery.state in ACTIVE or is_approved or is_planning


def refuse_dry_run(recoveries: Iterable[Recovery], params: Params) -> Refused | None:
    """The refusal where as many dry runs are being planned as may be at once; or None."""
    planning = sum(1 for r in recoveries if r.state is State.PLANNING and r.spec.dry_run)
    if planning < params.max_planned_dry_runs:
        return None
    message = f"{planning} dry runs are being planned, at most {params.max_planned_dry_runs} can be at once"
    return Refused(Code.TOO_MANY_RECOVERIES, message, "Wait until their plans are made, then send it again.")


def refuse_to_wait(recoveries: Iterable[Recovery], params: Params) -> Refused | None:
    """The refusal where as many plans wait for approval as recoveries may be active; or None."""
    waiting = sum(1 for r in recoveries if r.state is State.AWAITING_APPROVAL and not r.approved)
    if waiting < params.max_active_recoveries:
        return None
    message = f"{waiting} plans wait for approval, the config allows {params.max_active_recoveries}"
    hint = "Approve or reject one, or raise `limits.max_active_recoveries`."
    return Refused(Code.TOO_MANY_RECOVERIES, message, hint)


def needs_approval(case: Case, plan: Plan) -> str | None:
    """Why a person has to look at the plan first, or None. Who reads a target that a workflow copies to was looked at
    with the plan of that, and how much it is, up to what that plan told.
    """
    recovery, params = case.recovery, case.params
    limits = SizeLimits(params.approval_above_bytes, params.approval_above_records)
    told = case.draft.told_size(recovery.id, recovery.command)
    too_large = approval_for_size(ToldSize(plan.records_at_most, plan.bytes_at_most), limits, told)
    if too_large is not None:
        return too_large
    if not params.approval_of_unknown_readers or case.draft.is_begun_by_workflow(recovery.id, recovery.command):
        return None
    return approval_for_impact(plan)
