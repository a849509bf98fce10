"""All units behind the one port: each asked by the adapter of its kind, and manual where a person does it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from recoveryd.adapters.control.connect import ConnectApplication, ConnectApplications
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_sight import ProcessApplication
from recoveryd.adapters.control.webhook import WebhookApplication, WebhookApplications
from recoveryd.errors import ClusterProblem
from recoveryd.ports import ApplicationControl
from recoveryd.units.control import ApplicationState, Desired, Needs, Report, Wish

log = structlog.stdlib.get_logger(__name__)

Application = ProcessApplication | WebhookApplication | ConnectApplication
_VERBS: Final = {Desired.RUNNING: "starts", Desired.STOPPED: "stops"}


class ManualApplications:
    """A person stops and starts them, and says so with `ack`."""

    async def ask(self, wish: Wish) -> Report:
        why = f"a person {_VERBS[wish.desired]} it and says so with ack"
        return Report(wish.unit, ApplicationState.UNKNOWN, why, needs=Needs.ACK)

    async def look(self, unit: str) -> Report:
        return Report(unit, ApplicationState.UNKNOWN, "a person stops and starts it, so its state is not known here")

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class UnitControls:
    """`units`: which adapter has which unit. Raises nothing: a bug of an adapter is a report too."""

    def __init__(self, units: Mapping[str, ApplicationControl], adapters: Sequence[ApplicationControl]) -> None:
        self._units = units
        self._adapters = adapters

    async def ask(self, wish: Wish) -> Report:
        control = self._units.get(wish.unit)
        if control is None:
            return self._not_known(wish.unit)
        try:
            report = await control.ask(wish)
        except Exception as bug:  # the run that asks must come to an end, whatever happens
            log.exception("asking for the state of an application broke", unit=wish.unit)
            return _broken(wish.unit, bug)
        return replace(report, needs=Needs.NOTHING) if report.fulfils(wish.desired) else report

    async def look(self, unit: str) -> Report:
        control = self._units.get(unit)
        if control is None:
            return self._not_known(unit)
        try:
            return await control.look(unit)
        except Exception as bug:
            log.exception("looking at the state of an application broke", unit=unit)
            return _broken(unit, bug)

    async def sink_offsets(self, unit: str) -> Mapping[tuple[str, int], int]:
        """Raises `ClusterProblem`, as does the next."""
        return await self._connect(unit).sink_offsets(unit)

    async def set_sink_offsets(self, unit: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        await self._connect(unit).set_sink_offsets(unit, offsets)

    def _connect(self, unit: str) -> ConnectApplications:
        control = self._units.get(unit)
        if not isinstance(control, ConnectApplications):
            raise ClusterProblem(f"{unit} is not controlled by Kafka Connect any more", retriable=False)
        return control

    async def renew(self, unit: str, application: Application) -> None:
        """Go on with these secrets of a unit; a wish under way keeps those that it began with."""
        control = self._units.get(unit)
        match control, application:
            case ProcessApplications(), ProcessApplication():
                control.renew(application)
            case WebhookApplications(), WebhookApplication():
                await control.renew(application)
            case ConnectApplications(), ConnectApplication():
                await control.renew(application)

    async def sinks_of(self, units: Collection[str], topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sink connectors that read the topic, as the workers of these units tell, and what was not told."""
        adapter = next((each for each in self._adapters if isinstance(each, ConnectApplications)), None)
        return ((), ()) if adapter is None else await adapter.sinks_of(units, topic)

    async def start(self) -> None:
        for adapter in self._adapters:
            await adapter.start()

    async def close(self) -> None:
        for adapter in self._adapters:
            await adapter.close()

    @staticmethod
    def _not_known(unit: str) -> Report:
        return Report(unit, ApplicationState.UNKNOWN, f"the config has no unit {unit!r}", needs=Needs.MENDING)


def _broken(unit: str, bug: Exception) -> Report:
    why = f"it could not be asked: {type(bug).__name__}; the daemon's log has more"
    return Report(unit, ApplicationState.UNKNOWN, why, needs=Needs.MENDING)
