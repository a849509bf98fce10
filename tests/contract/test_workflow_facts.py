"""What is gathered for the plan of a workflow has the daemon's own time, with which it is compared."""

from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.workflows.model.effects import GatherForWorkflow
from recoveryd.workflows.model.facts import WantedFacts

NOW_MS = 42  # far from any wall clock


async def test_facts_have_the_time_of_the_daemon_which_may_differ_from_that_of_the_machine() -> None:
    steps = KafkaSteps({}, {}, dict, ManualApplications(), lambda: NOW_MS)
    facts = await steps.gather(GatherForWorkflow("w1", WantedFacts()))
    await steps.close()
    assert facts.found.at_ms == NOW_MS
