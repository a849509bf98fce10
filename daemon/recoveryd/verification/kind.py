"""The kind `verification`: what is special about a recovery that only compares."""

from recoveryd.recovery.kinds import Kind
from recoveryd.verification.job_spec import make_job_spec
from recoveryd.verification.plan import make_verification_plan
from recoveryd.verification.recheck import stale
from recoveryd.verification.spec import VerificationSpec, Verify
from recoveryd.verification.wire import FORM

VERIFICATION = Kind(
    VerificationSpec.kind, Verify.verb, Verify, VerificationSpec, FORM, make_verification_plan, make_job_spec, stale
)
