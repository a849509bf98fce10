"""The backend of everyday use: Kafka itself, as `recoveryd.adapters.kafka.status_reader` reads it; importing it loads
the Kafka client.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from recoveryd.adapters.kafka.status_reader import Expected, StatusReader
from recoveryd.adapters.kafka.topic_admin import describe_patiently
from recoveryd.cli.send.backend import OutgoingRecord, Sent
from recoveryd.cli.status import Document
from recoveryd.errors import ClusterProblem, OwnTopicProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import TimeProblem, parse_time_ms

if TYPE_CHECKING:
    from recoveryd.settings import Settings

# Events are stamped when they are made and records when they are written; clocks of a leader and its successor may
# differ by more.
_MARGIN_MS = 600_000
_ASK_S = 5.0  # enough to know that nothing listens there
_BUSY_S = 15.0  # for a broker that is there and has no time yet


class KafkaBackend(StatusReader):
    """Implements `recoveryd.cli.send.backend.Backend` on the cluster `main` of the config.

    Raises soon when no broker answers or an own topic is missing: asked for a topic that is not there, the client
    would wait for a leader instead.
    """

    def __init__(self, settings: "Settings") -> None:
        _require_topics(settings)
        super().__init__(settings.librdkafka(), settings.topic_names)

    def send(self, record: OutgoingRecord) -> Sent:
        sent = self.write(record.key.encode(), record.value, record.headers)
        return Sent(record, sent.offset, sent.broker_ms)

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, Document]]:
        asked = {Expected(one.record.id, one.record.key, one.offset): one for one in sent}
        for one, event in self.await_answers(list(asked), timeout_s):
            yield asked[one], event

    def events(self, recovery: str, since: str | None = None) -> list[Document]:
        return self.read_events(recovery, _since_ms(since))


def _require_topics(settings: "Settings") -> None:
    properties, names = settings.librdkafka(), settings.topic_names
    try:
        shapes = describe_patiently(properties, (names.control, names.status, names.events), _ASK_S, _BUSY_S)
    except ClusterProblem as error:
        if error.code is not Code.CLUSTER_UNREACHABLE:
            raise
        raise ClusterProblem(f"No broker answers at {properties['bootstrap.servers']}.") from error
    missing = [f"{name} does not exist." for name, shape in shapes.items() if shape is None]
    if missing:
        raise OwnTopicProblem(missing)


def _since_ms(since: str | None) -> int | None:
    """A little earlier than asked; None (read all) for what is no time."""
    try:
        return None if since is None else max(0, parse_time_ms(since) - _MARGIN_MS)
    except TimeProblem:
        return None
