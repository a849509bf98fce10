"""The job kind `replay`: its lanes and its verification as Spark jobs. Only descriptors travel through the driver, never records."""

from functools import partial
from typing import Any

from spark_jobs.contract import JobSpec, VerificationReport, decode, encode
from spark_jobs.lanes import Outcome, run_lane
from spark_jobs.verify import combine, read_plan, split_plan, verify_share


def run_lane_job(context: Any, spec: JobSpec, lane: int) -> Outcome:
    """Run one lane as a Spark job of one task; returns when it ended. A task whose worker died is started again by Spark."""
    found = context.parallelize([lane], 1).mapPartitions(partial(_lane_task, encode(spec))).collect()
    return Outcome(*found[0])


def _lane_task(raw_spec: bytes, lanes: Any) -> Any:
    spec = decode(JobSpec, raw_spec)
    for number in lanes:
        lane = next(item for item in spec.lanes if item.lane == number)
        outcome = run_lane(spec, lane)
        yield outcome.lane, outcome.ended, outcome.error_code, outcome.error_message


def run_verification(context: Any, spec: JobSpec, *, is_whole: bool) -> VerificationReport:
    """Verify what the receipts say; `is_whole` = every lane came to the end of its range, so the receipts must cover all of it."""
    if spec.verify == "none":
        return VerificationReport("skipped", 0, 0, "", why="verification was not asked for")
    plan = read_plan(spec, is_whole=is_whole)
    shares = split_plan(plan, int(context.defaultParallelism))
    found: list[Any] = []
    if shares:
        task = partial(_verify_task, encode(spec))
        found = context.parallelize(shares, len(shares)).mapPartitions(task).collect()
    return combine(spec, plan, found)


def _verify_task(raw_spec: bytes, shares: Any) -> Any:
    spec = decode(JobSpec, raw_spec)
    for share in shares:
        yield verify_share(spec, share)
