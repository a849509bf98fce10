"""Workflows that exchange applications under `control: kubernetes`: the new version gets as many pods as the old one
had, and so does the old one when it comes back, where no config says how many.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from recoveryd.adapters.control.controls import UnitControls
from recoveryd.adapters.kafka.steps.application_steps import ApplicationSteps
from recoveryd.kernel.states import State
from recoveryd.ports import ApplicationControl
from recoveryd.units.model import ControlKind
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.control.test_kubernetes import Cluster, controlled
from tests.patience import patient_s
from tests.workflows.app_world import UNIT
from tests.workflows.test_upgrade_other_id import NEW, SUFFIXES, upgrade
from tests.workflows.two_versions import TwoVersions

T = TypeVar("T")
OLD_UNIT, NEW_UNIT = (replace(unit, control=ControlKind.KUBERNETES) for unit in (UNIT, NEW))


class Clusters:
    """An API server for each of the two applications, asked from a thread that has no event loop."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        self.old, self.new = Cluster(3), Cluster(0)
        self._folder, self._certificates = folder, certificates
        self._loop = asyncio.new_event_loop()
        self._serving = AsyncExitStack()

    @contextmanager
    def running(self) -> Iterator["Clusters"]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            self.steps = self._run(self._serve())
            yield self
        finally:
            self._run(self._serving.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(patient_s(10))
            self._loop.close()

    async def _serve(self) -> ApplicationSteps:
        adapters: dict[str, ApplicationControl] = {}
        for unit, cluster in ((OLD_UNIT, self.old), (NEW_UNIT, self.new)):
            folder = self._folder / unit.name
            folder.mkdir()
            serving = controlled(cluster, folder, self._certificates, unit=unit.name)
            adapters[unit.name] = await self._serving.enter_async_context(serving)
        units = {unit.name: unit for unit in (OLD_UNIT, NEW_UNIT)}
        return ApplicationSteps(lambda: units, UnitControls(adapters, tuple(adapters.values())))

    def take(self, effect: TakeStep) -> StepReported:
        return self._run(self.steps.take(effect))

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(patient_s(60))


class Controlled(TwoVersions):
    """Members of a group are the pods of its application."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        super().__init__(OLD_UNIT, NEW_UNIT, suffixes=SUFFIXES)

    def take(self, effect: TakeStep) -> StepReported:
        action = effect.action
        if not isinstance(action, AwaitStarted | AwaitStopped):
            return super().take(effect)
        told = self.clusters.take(effect)
        if told.outcome is Outcome.DONE:
            self.start(action.unit) if isinstance(action, AwaitStarted) else self.stop_group(action.group)
        return told


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def clusters(tmp_path: Path, certificates: Certificates) -> Iterator[Clusters]:
    with Clusters(tmp_path, certificates).running() as made:
        yield made


@pytest.mark.scenario("S-WIKI-7", "S-OSO-13")
def test_another_application_id_gets_as_many_pods_as_the_old_one_had_and_so_does_the_old_one_again(
    clusters: Clusters,
) -> None:
    world = Controlled(clusters)
    assert upgrade(world) == "accepted"
    world.people()
    assert world.workflow.state is State.COMPLETED, [(w.id, w.why) for w in world.live()]
    assert (clusters.old.scalings, clusters.new.scalings) == ([0], [3])
    world.rolls_back()
    assert (clusters.old.scalings, clusters.new.scalings) == ([0, 3], [3, 0])


@pytest.mark.scenario("S-WIKI-7")
def test_how_many_there_were_is_known_to_a_daemon_that_takes_over_before_the_new_version_starts(
    clusters: Clusters,
) -> None:
    world = Controlled(clusters)
    assert upgrade(world) == "accepted"
    world.people(until="restore_savepoint")
    world.lead()
    world.people()
    assert world.workflow.state is State.COMPLETED, [(w.id, w.why) for w in world.live()]
    assert clusters.new.scalings == [3]
