"""What becomes of a secret that was read again: every part of the daemon that holds it gets the new one."""

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial

from recoveryd.adapters.control.controls import Application, UnitControls
from recoveryd.adapters.control.make import Surroundings, make_application
from recoveryd.adapters.http.signed_posts import WebhookTarget
from recoveryd.adapters.kafka.client import Properties, let_in
from recoveryd.adapters.kafka.clusters import MAIN
from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.collectors.secret_files import SecretFile
from recoveryd.settings import Settings
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.settings.renewing import (
    cluster_again,
    cluster_files,
    control_files,
    fingerprint,
    webhook_files,
)


@dataclass(slots=True)
class SecretHolders:
    """`clients`, `accesses` and `targets` are read by others whenever they make a client or a call. `try_login` blocks,
    and raises `ClusterProblem` unless a broker lets it in. `main_renewed` are told of each new login to `main`, `asked`
    of each request to read all secrets again.
    """

    settings: Settings
    clients: Mapping[str, LivingProperties] = field(repr=False)
    accesses: MutableMapping[str, ClientAccess] = field(repr=False)
    targets: MutableMapping[str, WebhookTarget] = field(repr=False)
    controls: UnitControls
    surroundings: Surroundings
    main_renewed: list[Callable[[ClientAccess], None]] = field(default_factory=list)
    asked: list[Callable[[], None]] = field(default_factory=list)
    try_login: Callable[[Properties, str], None] = let_in
    _in_force: dict[str, str] = field(default_factory=dict)  # by cluster: the fingerprint of what it was given

    def secrets(self) -> list[SecretFile]:
        """Those that stand in files."""
        values = self.settings.values
        for name, properties in self.clients.items():
            self._in_force[name] = fingerprint(properties, cluster_files(self.settings, name))
        found = [
            *((f"clusters.{n}", cluster_files(self.settings, n), partial(self._cluster, n)) for n in values.clusters),
            *((f"webhooks.{n}", webhook_files(self.settings, n), partial(self._webhook, n)) for n in values.webhooks),
            *((f"units.{n}.control", control_files(self.settings, n), partial(self._control, n)) for n in values.units),
        ]
        return [SecretFile(name, files, renew) for name, files, renew in found if files]

    async def _cluster(self, name: str) -> None:
        """Raises `ConfigProblem`, and `ClusterProblem` unless a broker says yes to the new login."""
        access, properties = await asyncio.to_thread(cluster_again, self.settings, name)
        living, found = (
            self.clients[name],
            await asyncio.to_thread(fingerprint, properties, cluster_files(self.settings, name)),
        )
        if found == self._in_force[name]:
            return  # whoever only asked, or touched a file, shall not make every client anew
        await asyncio.to_thread(self.try_login, properties, name)
        living.renew(properties)
        self.accesses[name] = access
        if name == MAIN:
            for tell in self.main_renewed:
                tell(access)
        self._in_force[name] = found  # last, so that what broke in between is done again

    async def _webhook(self, name: str) -> None:
        """Raises `ConfigProblem`."""
        target = WebhookTarget(*await asyncio.to_thread(self.settings.webhook_target, name))
        around = replace(self.surroundings, webhooks={**self.targets, name: target})
        units = [unit for unit, values in self.settings.values.units.items() if values.control.webhook == name]
        made = {unit: await self._application(unit, around) for unit in units}
        self.targets[name] = target  # nothing is refused from here on
        for unit, application in made.items():
            await self._renew_control(unit, application)

    async def _control(self, unit: str) -> None:
        """Raises `ConfigProblem`."""
        await self._renew_control(unit, await self._application(unit, self.surroundings))

    async def _application(self, unit: str, around: Surroundings) -> Application | None:
        return await asyncio.to_thread(make_application, self.settings.control_options()[unit], around)

    async def _renew_control(self, unit: str, application: Application | None) -> None:
        if application is not None:
            await self.controls.renew(unit, application)
