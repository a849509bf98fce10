"""The kind `replay`: what is special about a recovery that copies."""

from recoveryd.recovery.kinds import Kind
from recoveryd.replay.job_spec import make_job_spec
from recoveryd.replay.plan import make_plan
from recoveryd.replay.recheck import stale
from recoveryd.replay.spec import Replay, ReplaySpec
from recoveryd.replay.wire import FORM

REPLAY = Kind(ReplaySpec.kind, Replay.verb, Replay, ReplaySpec, FORM, make_plan, make_job_spec, stale)
