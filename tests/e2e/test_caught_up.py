"""A copy that catches up with a real topic: a batch counts until it is copied, also the markers behind it."""

import pytest

from tests.builders.history import Draft, produce, transactional
from tests.e2e.asking import await_progress, copied
from tests.e2e.data import BASE_MS, fill_plain
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack, completed_ranges

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

BATCH, SLOWLY = 20_000, 30


@pytest.mark.wide("tests/e2e/test_replay.py::test_a_replay_that_follows_a_live_topic_stops_by_itself_once_it_caught_up")
def test_a_batch_of_transactions_that_is_copied_slowly_in_the_end_is_copied_to_its_end(stack: Stack) -> None:
    """A tenth of it is left when the copy is slowed down, and nothing comes any more. In the mean of a minute and a
    half that is what arrives in ten seconds, but all of it is older than that.
    """
    source, target = f"{stack.mark}-batch", f"{stack.mark}-batch-copy"
    fill_plain(stack.bootstrap, source, 1, 10)
    producer = transactional(stack.bootstrap, f"{stack.mark}-batch")  # now, since the copy of ten waits half a minute
    with stack.running(settings={"monitor": {"interval": "5s"}}):
        limits = {"max_records_per_s": 1_000}
        stack.control.replay("batch", source, target, stop="caught_up", target_create=True, limits=limits)
        stack.follower.wait_state("batch", "running", 120)
        producer.begin_transaction()
        for number in range(BATCH):
            produce(producer, source, Draft(0, b"%d" % number, b"%d" % number, (), BASE_MS))
        producer.commit_transaction(60)
        await_progress(stack, "batch", round(0.85 * BATCH))
        stack.control.command("throttle", "batch", {"limits": {"max_records_per_s": SLOWLY}})
        stack.follower.wait_state("batch", "verifying", 240)
        stack.control.command("throttle", "batch", {"limits": {"max_records_per_s": None}})
        done = stack.completed("batch")
    assert (done["stop"]["reason"], done["stop"]["mode"]) == ("zero_lag", "caught_up")
    assert copied(stack, target) == BATCH + 10
    covered = completed_ranges(done)
    assert covered == whole_log(stack.bootstrap, source)
    [row] = done["stop"]["evidence"]["partitions"]
    assert row["position"] == row["wanted"] == row["end"]
    assert stack.violations("batch", source, target, covered) == []
