"""Where a test can make a lane or a driver die at once (`recoveryd_jobs.shared.failpoints` says how)."""

from recoveryd_jobs.shared.failpoints import hit

__all__ = ["POINTS", "hit"]

POINTS = frozenset({
    "lane.after_init",
    "lane.after_receipts_read",
    "lane.after_consume",
    "lane.after_produce",
    "lane.after_flush",
    "lane.after_receipt_produced",
    "lane.before_commit",
    "lane.after_commit",
    "lane.drained",
    "driver.started",
    "driver.session_up",
    "driver.lanes_started",
    "driver.drained",
    "driver.before_verify",
    "driver.verified",
})  # fmt: skip
