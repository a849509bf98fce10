"""What ends a reading of the proof, and what it waits for: by name, and never for longer than it must."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from spark_jobs.contract import PartitionRange
from spark_jobs.errors import JobError
from spark_jobs.proof_plan import log_start_of
from spark_jobs.proof_reader import Place, Range, RangeReader
from tests.builders.copying import Cluster, Recovery, rows

_PATIENCE_S = 60.0


class Free:
    """A guest whom nobody holds up."""

    client_id = "reader"

    def turn(self) -> int:
        return 1_000

    def took(self, records: int, size: int, offsets: int) -> None: ...


class Heard:
    """Calls `then` with the first records."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self.records = 0

    def begin(self, ranged: Range) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> None:
        if not self.records:
            self._then()
        self.records += len(messages)

    def deleted(self, partition: int, log_start: int) -> None: ...

    def finish(self, partition: int) -> None: ...


@pytest.mark.broker
def test_a_topic_that_is_deleted_while_it_is_read_is_named(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    spec = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 20)]]).spec
    place = Place(spec.source.client, source, "source", log_start_of(spec, 0))
    reader = RangeReader(place, Free(), Heard(lambda: cluster.delete(source)), _PATIENCE_S)  # type: ignore[arg-type]
    try:
        with pytest.raises(JobError) as gone:
            reader.read([Range(0, 0, 20)])
    finally:
        reader.close()
    assert gone.value.code == "topic_recreated"
    assert f"The source topic {source}" in gone.value.message
    assert "does not exist any more" in gone.value.message
