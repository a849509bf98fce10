"""What the steps of workflows meet on a real broker: topics, and an application that runs at once."""

from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import await_topic, describe
from recoveryd.units.control import ApplicationState, Report, Wish
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.workflow import TopicUndo
from tests.builders.history import create_topics
from tests.e2e.processes import wait_for


class Runs:
    """Whoever controls the application says at once that it runs."""

    async def look(self, unit: str) -> Report:
        return Report(unit, ApplicationState.RUNNING, "1 of 1 instances")

    async def ask(self, wish: Wish) -> Report:
        return await self.look(wish.unit)

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Topics:
    """Topics on the broker, `a` and `b` unless others are named."""

    def __init__(self, bootstrap: str, unique: str, names: Sequence[str] = ()) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.names = tuple(names) or (f"{unique}a", f"{unique}b")
        create_topics(bootstrap, dict.fromkeys(self.names, 1))
        self.ids = {name: await_topic(self.admin, name, 60.0).topic_id for name in self.names}

    def there(self) -> dict[str, str | None]:
        shapes = describe(self.admin, self.names, 60.0)
        return {name: None if shape is None else shape.topic_id for name, shape in shapes.items()}

    def known_after(self, report: StepReported) -> dict[str, str | None]:
        """What is there, once the broker's metadata show what was told: a step that fails does not wait for that."""
        rows = (row for row in report.undo if isinstance(row, TopicUndo))
        told = {row.name: row.was_set for row in rows if row.is_gone or row.was_set}
        with suppress(AssertionError):  # the comparison that follows says more
            wait_for(lambda: told.items() <= self.there().items(), 20.0)
        return self.there()
