"""One connector by the REST interface of Kafka Connect (3.5 or newer): its state, stop and resume, and its offsets.

Workers pass questions on to each other, so any of them may be asked. While their group rebalances they answer 409,
which passes. What tasks say of a failure may hold anything, also passwords, so only the name of the error is taken from
it.
"""

import base64
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from recoveryd.adapters.control.foreign_patterns import fits
from recoveryd.adapters.http.asking import HttpAnswer, HttpQuestions, HttpRefusal

BODY_MOST: Final = 16 * 1024 * 1024  # traces of many tasks, offsets of many partitions
OFFSETS_S: Final = 100.0  # Connect itself gives up after 90 s
_NAME_MOST: Final = 100
_NO_SUCH_PATH: Final = "HTTP 404 Not Found"


class NoConnector(Exception):  # noqa: N818  (named for what happened)
    """Connect has none of this name."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """`error`: the name of what it failed with."""

    task: int
    state: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """States in capitals, as Connect tells them."""

    state: str
    error: str
    tasks: tuple[TaskState, ...]


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """Of a sink: `kafka_topic` and `kafka_partition`, and `kafka_offset`; of a source, what the connector makes of it.
    `offset` None = it is to be forgotten.
    """

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SinkConnector:
    """`pattern`: a Java regular expression over topics, in place of their names."""

    name: str
    topics: frozenset[str]
    pattern: str = ""

    def reads(self, topic: str) -> bool | None:
        """None: its pattern was not tried, as one that only Java reads. It counts as one that fits: better one too many
        than one too few.
        """
        if topic in self.topics or not self.pattern:
            return topic in self.topics
        return fits(self.pattern, topic)


class ConnectApi:
    """Every call raises `HttpRefusal`, and `NoConnector`."""

    def __init__(
        self,
        url: str,
        connector: str,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        timeout_s: float = 10.0,
    ) -> None:
        self.url = url.rstrip("/")
        self._path = f"{url.rstrip('/')}/connectors/{quote(connector, safe='')}"
        self._headers = {"Content-Type": "application/json"}
        if login is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        self._questions = HttpQuestions(tls, timeout_s=timeout_s, body_most=BODY_MOST)

    async def state(self) -> ConnectorState:
        try:
            return _state(await self._ask("GET", "/status"))
        except NoConnector:
            await self._ask("GET", "")  # one that was made just now has no status yet
            raise HttpRefusal("it knows no status of the connector yet", is_passing=True) from None

    async def sinks(self) -> tuple[SinkConnector, ...]:
        """All sink connectors of the same workers."""
        answer = _read(await self._questions.ask("GET", f"{self.url}/connectors?expand=info", headers=self._headers))
        return tuple(sink for name, told in answer.items() if (sink := _sink(name, told)) is not None)

    async def stop(self) -> None:
        await self._ask("PUT", "/stop")

    async def resume(self) -> None:
        await self._ask("PUT", "/resume")

    async def restart_failed(self) -> None:
        await self._ask("POST", "/restart?includeTasks=true&onlyFailed=true")

    async def offsets(self) -> tuple[ConnectorOffset, ...]:
        answer = await self._ask("GET", "/offsets", timeout_s=OFFSETS_S)
        rows = answer.get("offsets")
        if not isinstance(rows, list) or not all(_is_offset(row) for row in rows):
            raise _not_understood("no list of offsets")
        return tuple(ConnectorOffset(row["partition"], row["offset"]) for row in rows)

    async def set_offsets(self, rows: Sequence[ConnectorOffset]) -> None:
        """Only those that are named; the connector has to be stopped."""
        body = {"offsets": [{"partition": dict(row.partition), "offset": row.offset} for row in rows]}
        await self._ask("PATCH", "/offsets", body, timeout_s=OFFSETS_S)

    async def forget_offsets(self) -> None:
        """All of them; the connector has to be stopped, and begins anew then."""
        await self._ask("DELETE", "/offsets", timeout_s=OFFSETS_S)

    async def close(self) -> None:
        await self._questions.close()

    async def _ask(self, method: str, path: str, body: object = None, timeout_s: float | None = None) -> dict[str, Any]:
        answer = await self._questions.ask(
            method,
            self._path + path,
            headers=self._headers,
            body=None if body is None else json.dumps(body).encode(),
            answers=range(400, 600),
            timeout_s=timeout_s,
        )
        return _read(answer)


def _read(answer: HttpAnswer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body) if answer.body.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if answer.status < 300:
        if not isinstance(found, dict):
            raise _not_understood("no JSON object")
        return found
    message = found.get("message") if isinstance(found, dict) else None
    if answer.status == 404 and isinstance(message, str) and message != _NO_SUCH_PATH:
        raise NoConnector
    # Connect answers a stop with 500 when it took too long; these pass, and so does a rebalance.
    raise HttpRefusal.of(answer.status, message if isinstance(message, str) and answer.status == 400 else "")


def _sink(name: str, told: object) -> SinkConnector | None:
    """None of what is no sink."""
    info = told.get("info") if isinstance(told, dict) else None
    config = info.get("config") if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(config, dict):
        raise _not_understood("a connector without config")
    if info.get("type") != "sink":
        return None
    topics, pattern = config.get("topics") or "", config.get("topics.regex") or ""
    names = frozenset(part.strip() for part in str(topics).split(",") if part.strip())
    return SinkConnector(name, names, str(pattern))


def _state(answer: Mapping[str, Any]) -> ConnectorState:
    connector, tasks = answer.get("connector"), answer.get("tasks")
    if not isinstance(connector, dict) or not isinstance(tasks, list):
        raise _not_understood("no state of a connector")
    found = []
    for task in tasks:
        if not isinstance(task, dict) or not isinstance(task.get("id"), int):
            raise _not_understood("a task without id")
        found.append(TaskState(task["id"], _text(task, "state"), _error(task)))
    return ConnectorState(_text(connector, "state"), _error(connector), tuple(found))


def _text(answer: Mapping[str, Any], name: str) -> str:
    found = answer.get(name)
    if not isinstance(found, str) or not found.isascii() or len(found) > _NAME_MOST:
        raise _not_understood(f"no {name}")
    return found


def _error(answer: Mapping[str, Any]) -> str:
    trace = answer.get("trace")
    if not isinstance(trace, str):
        return ""
    name = trace.partition("\n")[0].partition(":")[0].strip()[:_NAME_MOST]
    return name.rpartition(".")[2] if name.replace(".", "").replace("$", "").isidentifier() else ""


def _is_offset(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("partition"), dict)
        and "offset" in row
        and isinstance(row["offset"], dict | None)
    )


def _not_understood(what: str) -> HttpRefusal:
    return HttpRefusal(f"its answer is not that of Kafka Connect: {what}", is_passing=False)
