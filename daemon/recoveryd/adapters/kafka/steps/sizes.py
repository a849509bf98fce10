"""How many bytes a copy of a topic would be, for the plan of a workflow: by the same numbers as the plan of the copy
itself, or the two would say different things. No plan needs it: what is not learnt in its time is not known.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from recoveryd.adapters.kafka.facts import with_sizes
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.record_samples import SAMPLE_S, RecordSample, sample_records
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.pinning import pin
from recoveryd.recovery.plan_facts import PartitionFacts, is_remote
from recoveryd.recovery.spec import Earliest, Latest
from recoveryd.workflows.model.facts import TopicFound

_log = logging.getLogger("recoveryd.workflows")
_AT_ONCE: Final = 8  # each question has a connection of its own
_SAMPLES_S: Final = 10.0  # of all topics together; of those after it no size is known

Topics = Mapping[str, TopicFound | None]


async def sized(reach: Reach, cluster: str, shapes: Mapping[str, TopicShape | None], found: Topics) -> Topics:
    """These topics of a cluster with their sizes."""
    answers, few = LeaderAnswers(reach.accesses), asyncio.Semaphore(_AT_ONCE)
    give_up_s = time.monotonic() + _SAMPLES_S

    async def each(name: str) -> tuple[str, TopicFound | None]:
        shape, topic = shapes[name], found[name]
        if shape is None or topic is None:
            return name, topic
        async with few:
            # Brokers tell what lies on their own disks.
            is_told = not is_remote(topic.form.configs)
            sizes = await answers.log_sizes(cluster, name, shape.leaders) if is_told else None
            sample = await _sampled(reach, cluster, topic, give_up_s)
        return name, replace(topic, bytes_at_most=_bytes_at_most(topic, sizes, sample))

    return dict(await asyncio.gather(*(each(name) for name in found)))


async def _sampled(reach: Reach, cluster: str, topic: TopicFound, give_up_s: float) -> RecordSample:
    if time.monotonic() >= give_up_s:
        return RecordSample()
    name, ranges = topic.form.name, {p: (log.log_start, log.high_watermark) for p, log in topic.ends.items()}
    try:
        return await reach.run(cluster, sample_records, reach.clusters[cluster], name, ranges, SAMPLE_S)
    except ClusterProblem as problem:
        _log.info("Not known how large the records of %s are: %s", name, problem.message)
        return RecordSample()


def _bytes_at_most(topic: TopicFound, sizes: Mapping[int, int] | None, sample: RecordSample) -> int | None:
    """Known only if each partition's are, and of those with records by a sample: what brokers have of compressed ones
    says little.
    """
    facts = (PartitionFacts(p, log.log_start, log.high_watermark, log.high_watermark) for p, log in topic.ends.items())
    partitions = with_sizes(tuple(facts), sizes, sample)
    held = (each for each in partitions if each.high_watermark > each.log_start)
    if any(each.bytes_on_disk is None or each.bytes_per_offset is None for each in held):
        return None
    return sum(pin(Earliest(), Latest(), each, "source").bytes_at_most for each in partitions)
