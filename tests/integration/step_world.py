"""What the steps of workflows meet on a real broker: topics, and an application that runs at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import await_topic, describe
from recoveryd.units.control import ApplicationState, Report, Wish
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import TopicUndo
from tests.builders.history import create_topics
from tests.e2e.processes import wait_for
from tests.patience import patient_s


async def done(take: Callable[[], Awaitable[StepReported]]) -> StepReported:
    """What the step tells when it is done. It is taken again while it is not yet, as the daemon does: a broker may hear
    of a member that left, or of a commit, a moment later.
    """
    give_up_s = time.monotonic() + patient_s(10)
    while (told := await take()).outcome is Outcome.NOT_YET:
        assert time.monotonic() < give_up_s, told.why
        await asyncio.sleep(0.1)
    assert told.outcome is Outcome.DONE, told.why
    return told


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
