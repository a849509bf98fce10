"""`control: connect`: a connector, stopped and resumed by the REST interface of Kafka Connect.

Stopped, not paused: the tasks of a paused connector keep their places in the group, whose offsets cannot be set then.
Connect writes each stop and resume into its config topic, so one wish sends it once; what the status says counts.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from recoveryd.adapters.control.connect_api import (
    ConnectApi,
    ConnectorOffset,
    ConnectorState,
    NoConnector,
    SinkConnector,
)
from recoveryd.adapters.http.asking import HttpRefusal
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.units.control import ApplicationState, Desired, Needs, Report, Wish

_VERBS: Final = {Desired.RUNNING: "resume", Desired.STOPPED: "stop"}
_NOT_STOPPED: Final = 400
_TOO_OLD: Final = frozenset({404, 405})
_NAMED_MOST: Final = 5
_TRIES_S: Final = 2.0
RESTART_MS: Final = 10_000  # what is still failed then has failed again


@dataclass(frozen=True, slots=True)
class ConnectApplication:
    unit: str
    connector: str
    url: str = field(repr=False)
    login: tuple[str, str] | None = field(repr=False)
    tls: ssl.SSLContext | None
    timeout_ms: int


@dataclass(slots=True)
class _Sent:
    """What was sent for one wish, and when, in this daemon's time; the next one sends it again, which changes nothing,
    unless somebody undid it meanwhile (`Wish.may_tell`).
    """

    key: str
    at_ms: dict[str, int] = field(default_factory=dict)


class ConnectApplications:
    """Call from the event loop. `timeout_s` of one question is for tests."""

    def __init__(
        self, applications: Sequence[ConnectApplication], now_ms: Callable[[], int], *, timeout_s: float = 10.0
    ) -> None:
        self._applications = {a.unit: a for a in applications}
        self._timeout_s = timeout_s
        self._apis = {a.unit: self._api(a) for a in applications}
        self._now_ms = now_ms
        self._sent: dict[str, _Sent] = {}  # for the last wish of each unit

    async def ask(self, wish: Wish) -> Report:
        application = self._applications[wish.unit]
        seen = await self._seen(application, lambda found: self._bring(application, wish, found))
        if seen.fulfils(wish.desired) or seen.needs is not Needs.TIME:
            return seen
        return seen.in_time(wish, wish.waited_ms(self._now_ms(), self._sent_ms(wish)), application.timeout_ms)

    def _sent_ms(self, wish: Wish) -> int | None:
        sent = self._sent.get(wish.unit)
        return None if sent is None or sent.key != wish.key else sent.at_ms.get(_VERBS[wish.desired])

    async def renew(self, application: ConnectApplication) -> None:
        before = self._apis[application.unit]
        self._applications[application.unit] = application
        self._apis[application.unit] = self._api(application)
        await before.close()

    async def look(self, unit: str) -> Report:
        application = self._applications[unit]

        async def as_it_is(found: ConnectorState) -> Report:
            return _report(application, found)

        return await self._seen(application, as_it_is)

    async def sinks_of(self, units: Collection[str], topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the workers of these units, each asked once: the sinks that read the topic, and what was not told."""
        apis = {api.url: api for unit, api in self._apis.items() if unit in units}
        found, problems = set(), []
        for api in apis.values():
            try:
                sinks = await api.sinks()
            except HttpRefusal as refusal:
                problems.append(f"which sink connectors read {topic} is not told by Kafka Connect: {refusal.why}")
                continue
            reading, untried = await _that_read(sinks, topic)
            found |= {*reading, *untried}
            if untried:
                problems.append(_not_tried(sorted(untried), topic))
        return tuple(sorted(found)), tuple(problems)

    def _api(self, application: ConnectApplication) -> ConnectApi:
        a = application
        return ConnectApi(a.url, a.connector, a.login, a.tls, timeout_s=self._timeout_s)

    async def start(self) -> None: ...

    async def close(self) -> None:
        for api in self._apis.values():
            await api.close()

    async def offsets(self, unit: str) -> tuple[ConnectorOffset, ...]:
        """Raises `HttpRefusal`, `NoConnector`, as do the next two, for which the connector has to be stopped."""
        return await self._apis[unit].offsets()

    async def set_offsets(self, unit: str, rows: Sequence[ConnectorOffset]) -> None:
        await self._apis[unit].set_offsets(rows)

    async def forget_offsets(self, unit: str) -> None:
        await self._apis[unit].forget_offsets()

    async def sink_offsets(self, unit: str) -> dict[tuple[str, int], int]:
        """By topic and partition. Raises `ClusterProblem`, also for a source connector, whose offsets are its own
        affair.
        """
        connector = self._applications[unit].connector
        try:
            rows = await self.offsets(unit)
        except (HttpRefusal, NoConnector) as problem:
            raise _not_read(connector, "read", problem) from problem
        found = {}
        for row in rows:
            topic, partition = row.partition.get("kafka_topic"), row.partition.get("kafka_partition")
            offset = None if row.offset is None else row.offset.get("kafka_offset")
            if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
                message = f"{connector} is a source connector: where it stands is not told by topics and partitions"
                raise ClusterProblem(message, code=Code.GROUP_TYPE, retriable=False)
            found[topic, partition] = offset
        return found

    async def set_sink_offsets(self, unit: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        """None takes one away. Raises `ClusterProblem`; one that is not stopped may be so later."""
        rows = [
            ConnectorOffset({"kafka_topic": topic, "kafka_partition": p}, None if at is None else {"kafka_offset": at})
            for (topic, p), at in offsets.items()
        ]
        try:
            await self.set_offsets(unit, rows)
        except (HttpRefusal, NoConnector) as problem:
            raise _not_read(self._applications[unit].connector, "set", problem) from problem

    async def _seen(
        self, application: ConnectApplication, and_then: Callable[[ConnectorState], Awaitable[Report]]
    ) -> Report:
        try:
            return await and_then(await self._apis[application.unit].state())
        except NoConnector:
            why = f"Kafka Connect has no connector {application.connector}"
            return Report(application.unit, ApplicationState.UNKNOWN, why, needs=Needs.MENDING)
        except HttpRefusal as problem:
            needs = Needs.TIME if problem.is_passing else Needs.MENDING
            why = f"Kafka Connect could not be asked: {problem.why}"
            return Report(application.unit, ApplicationState.UNKNOWN, why, needs=needs)

    async def _bring(self, application: ConnectApplication, wish: Wish, found: ConnectorState) -> Report:
        report = _report(application, found)
        if report.fulfils(wish.desired):
            return report
        sent = self._sent.get(wish.unit)
        if sent is None or sent.key != wish.key:
            sent = self._sent[wish.unit] = _Sent(wish.key)
        verb = _VERBS[wish.desired]
        if verb not in sent.at_ms and wish.may_tell:
            return await self._send(sent, wish, report)
        if wish.desired is Desired.RUNNING and _failed(found):
            if not wish.may_restart:
                why = f"{report.why}; what failed is not restarted by itself, because its outputs are appended to"
                return replace(report, why=why, needs=Needs.MENDING)
            restarted_ms = sent.at_ms.get("restart")
            if restarted_ms is None:
                await self._apis[wish.unit].restart_failed()
                sent.at_ms["restart"] = self._now_ms()
                return replace(report, why=f"what failed was told to restart; {report.why}", needs=Needs.TIME)
            if self._now_ms() - restarted_ms >= RESTART_MS:
                return replace(report, why=f"{report.why}, also after a restart", needs=Needs.MENDING)
        return replace(report, needs=Needs.TIME)

    async def _send(self, sent: _Sent, wish: Wish, report: Report) -> Report:
        api, verb = self._apis[report.unit], _VERBS[wish.desired]
        try:
            await (api.stop() if verb == "stop" else api.resume())
        except HttpRefusal as problem:
            if problem.status not in _TOO_OLD:
                raise
            why = f"this Kafka Connect cannot {verb} connectors; it has to be 3.5 or newer"
            return replace(report, why=why, needs=Needs.MENDING)
        sent.at_ms[verb] = self._now_ms()
        return replace(report, why=f"it was told to {verb}; {report.why}", needs=Needs.TIME).having_told(wish)


async def _that_read(sinks: Sequence[SinkConnector], topic: str) -> tuple[set[str], set[str]]:
    """Those that read it, and those of which it is not known, because nobody tried their pattern. Others wrote these:
    the loop turns between two of them, and what is left of them after `_TRIES_S` is not tried.
    """
    reading: set[str] = set()
    untried: set[str] = set()
    give_up_s = time.monotonic() + _TRIES_S
    for sink in sinks:
        reads = None if sink.pattern and time.monotonic() >= give_up_s else sink.reads(topic)
        if reads is not False:
            (untried if reads is None else reading).add(sink.name)
        if sink.pattern:
            await asyncio.sleep(0)
    return reading, untried


def _not_tried(names: Sequence[str], topic: str) -> str:
    more = f" and {len(names) - _NAMED_MOST} more" if len(names) > _NAMED_MOST else ""
    return f"the topics.regex of {', '.join(names[:_NAMED_MOST])}{more} was not tried, so it counts as one that fits {topic}: to try it may take too long, or only Java can"


def _not_read(connector: str, doing: str, problem: HttpRefusal | NoConnector) -> ClusterProblem:
    if isinstance(problem, NoConnector):
        return ClusterProblem(f"Kafka Connect has no connector {connector}", retriable=False)
    is_running = problem.status == _NOT_STOPPED and "STOPPED" in problem.why
    message = f"Could not {doing} the offsets of {connector}: {problem.why}"
    code = Code.GROUP_NOT_EMPTY if is_running else Code.CLUSTER_UNREACHABLE
    return ClusterProblem(message, code=code, retriable=problem.is_passing or is_running)


def _failed(found: ConnectorState) -> bool:
    return found.state == "FAILED" or any(task.state == "FAILED" for task in found.tasks)


def _report(application: ConnectApplication, found: ConnectorState) -> Report:
    tasks = found.tasks
    if found.state == "STOPPED" and not tasks:
        state, why = ApplicationState.STOPPED, "it is stopped and has no tasks"
    elif found.state == "RUNNING" and tasks and all(task.state == "RUNNING" for task in tasks):
        state, why = ApplicationState.RUNNING, f"it runs with {_tasks(len(tasks))}"
    else:
        state, why = ApplicationState.CHANGING, _how_it_changes(found)
    evidence = {"connector": found.state, "tasks": dict(Counter(task.state for task in tasks))}
    return Report(application.unit, state, why, evidence)


def _how_it_changes(found: ConnectorState) -> str:
    why = f"the connector is {found.state}" + (f" ({found.error})" if found.error else "")
    odd = [task for task in found.tasks if task.state != found.state]
    if not found.tasks:
        return f"{why} and has no tasks"
    if not odd:
        return f"{why} with {_tasks(len(found.tasks))}"
    told = ", ".join(f"{t.task} is {t.state}" + (f" ({t.error})" if t.error else "") for t in odd[:_NAMED_MOST])
    more = f" and {len(odd) - _NAMED_MOST} more" if len(odd) > _NAMED_MOST else ""
    return f"{why}, of {_tasks(len(found.tasks))} {told}{more}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
