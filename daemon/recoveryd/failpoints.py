"""Where a test can make the daemon die at once (`recoveryd_jobs.shared.failpoints` says how).

`step.before.NAME` and `step.after.NAME`, which are not listed, lie around what a step of a workflow does.
"""

from recoveryd_jobs.shared.failpoints import hit

__all__ = ["POINTS", "hit"]

POINTS = frozenset({
    "journal.before_begin",
    "journal.before_commit",
    "journal.after_commit",
    "runtime.before_effects",
    "runtime.after_effects",
    "agent.before_inbox",
    "agent.after_journal",
    "watch.before_stop",
    "watch.after_stop",
})  # fmt: skip
