"""Workflows beside a recovery. No recovery begins or resumes on a topic that a running workflow will delete: it would
fail there and lose what it copied. What a workflow began itself is its own matter.

Workflows know recoveries, and not the other way round: what has to be asked of them is handed in (`draft.Beside`).
"""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import CommandRef
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import Finding, Recovery, Severity
from recoveryd.recovery.spec import Spec


def refuse_taken_away(draft: RecoveryDraft, recovery_id: str, command: CommandRef, spec: Spec) -> Refused | None:
    """The refusal that names the workflow which takes one of its topics away, or None."""
    if draft.is_begun_by_workflow(recovery_id, command):
        return None
    places = ((spec.source.cluster, spec.source.topic), (spec.target.cluster, spec.target.topic))
    told = next((told for place in places if (told := draft.taken_away(*place)) is not None), None)
    return None if told is None else Refused(Code.IN_USE, told, "Send it again when that one has ended.")


def taken_away_now(draft: RecoveryDraft, recovery: Recovery) -> Refused | None:
    """The same of a recovery that is planned."""
    return refuse_taken_away(draft, recovery.id, recovery.command, recovery.spec)


def taken_away_finding(draft: RecoveryDraft, recovery: Recovery) -> tuple[Finding, ...]:
    """For the plan of a dry run, which may be made meanwhile."""
    found = taken_away_now(draft, recovery)
    return () if found is None else (Finding("topic_taken_away", Severity.WARN, found.message),)
