"""Kafka's client quotas on recoveries, as a fence around clients that no longer listen.

Touched are only quotas of exactly one client id that this installation's recoveries have, and of those only the two
byte rates: no default, no user's, no other program's. A connection per call: there are few, and none is worth keeping
open.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from recoveryd.adapters.kafka.raw_requests import Change, RawClient, connected
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.effects import SetQuota, SweepQuotas
from recoveryd.recovery.events import QuotaSet, QuotasSwept
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import copy_client_id

DEADLINE_S: Final = 10.0
CONSUME: Final = "consumer_byte_rate"
PRODUCE: Final = "producer_byte_rate"
_CLIENT_ID: Final = "client-id"


class KafkaClientQuotas:
    """Quotas of recoveries of one `scope`, on named clusters."""

    def __init__(self, accesses: Mapping[str, ClientAccess], scope: str) -> None:
        self._accesses = accesses
        self._scope = scope

    async def set(self, effect: SetQuota) -> QuotaSet:
        """Raises `ClusterProblem`. After a refusal by one cluster there is no quota on the other either."""
        rates: dict[str, list[str]] = {}
        wanted = (
            (effect.source_cluster, [CONSUME]),
            (effect.target_cluster, [PRODUCE, CONSUME]),
        )  # a verification reads both
        for cluster, kinds in wanted:
            rates[cluster] = list(dict.fromkeys((*rates.get(cluster, ()), *kinds)))
        found = await self._try(rates, effect.recovery, effect.bytes_per_s)
        refusing = {cluster for cluster, problem in found.items() if not problem.retriable}
        problems = [*found.values()]
        if refusing and effect.bytes_per_s is not None:
            others = {cluster: names for cluster, names in rates.items() if cluster not in refusing}
            problems += (await self._try(others, effect.recovery, None)).values()
        if problems:  # one that may go away comes first: it is asked again, and so is what was refused
            raise next((problem for problem in problems if problem.retriable), problems[0])
        return QuotaSet(effect.recovery, effect.bytes_per_s)

    async def sweep(self, effect: SweepQuotas) -> QuotasSwept:
        """Remove what belongs to recoveries not in `keep`. Raises `ClusterProblem` when later may help; a refusal is
        part of the answer.
        """
        try:
            async with self._connected(effect.cluster) as client:
                found = await self._describe(client)
                gone = {recovery: names for recovery, names in found.items() if recovery not in effect.keep}
                changes = {
                    copy_client_id(self._scope, recovery): [(name, 0.0, True) for name in sorted(names)]
                    for recovery, names in gone.items()
                }
                if changes:
                    await client.alter_client_quotas(_CLIENT_ID, changes)
        except ClusterProblem as problem:
            if problem.retriable:
                raise
            return QuotasSwept(effect.cluster, refused=problem.message)
        kept = tuple(
            sorted((recovery, max(names.values())) for recovery, names in found.items() if recovery not in gone)
        )
        return QuotasSwept(effect.cluster, kept, tuple(sorted(gone)))

    async def _try(
        self, rates: Mapping[str, list[str]], recovery: str, bytes_per_s: float | None
    ) -> dict[str, ClusterProblem]:
        """What was in the way, by cluster; each of them is asked."""
        problems: dict[str, ClusterProblem] = {}
        for cluster, names in rates.items():
            try:
                await self._alter(cluster, recovery, names, bytes_per_s)
            except ClusterProblem as problem:
                problems[cluster] = problem
        return problems

    async def _alter(self, cluster: str, recovery: str, names: list[str], bytes_per_s: float | None) -> None:
        whole = float(math.ceil(bytes_per_s or 0.0))  # brokers take no fractions of a byte
        ops: list[Change] = [(name, whole, bytes_per_s is None) for name in names]
        async with self._connected(cluster) as client:
            await client.alter_client_quotas(_CLIENT_ID, {copy_client_id(self._scope, recovery): ops})

    async def _describe(self, client: RawClient) -> dict[str, dict[str, float]]:
        """The byte rates of this installation's recoveries, by recovery and name of the rate."""
        ours = copy_client_id(self._scope, "")
        found: dict[str, dict[str, float]] = {}
        for client_id, quotas in (await client.quotas_by_client_id()).items():
            rates = {name: value for name, value in quotas.items() if name in {CONSUME, PRODUCE}}
            if client_id.startswith(ours) and rates:
                found[client_id.removeprefix(ours)] = rates
        return found

    def _connected(self, cluster: str) -> AbstractAsyncContextManager[RawClient]:
        doing = f"set client quotas on the cluster {cluster}"
        return connected(self._accesses[cluster], "recoveryd-quotas", doing, DEADLINE_S)
