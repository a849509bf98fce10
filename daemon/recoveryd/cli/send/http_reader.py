"""Reading status through the daemon's HTTP API (`--http URL`), for people who can reach the daemon but not the brokers.

Commands and events still go through Kafka: the API is read-only and has no events. An answer that no recoveryd gives is
told like none.
"""

import json
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

from recoveryd.cli.failure import Failure, usage
from recoveryd.cli.send.backend import Backend, OutgoingRecord, Sent
from recoveryd.cli.send.http_asking import UNANSWERED, Page, ask, way_of
from recoveryd.cli.send.http_following import answers
from recoveryd.cli.status import Document
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code

_TIMEOUT_S = 30.0  # an address where nothing listens refuses at once
_PAGE = 1_000
_MAX_PAGES = 1_000


class _RefusedError(Exception):
    """The daemon has no log of it; the sentence is the daemon's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class HttpReader:
    """Status from `url`; everything else from the backend that `make_kafka` gives when it is first needed."""

    def __init__(self, url: str, make_kafka: Callable[[], Backend]) -> None:
        self._url = check_url(url)
        self._place = f"{self._url}{way_of(self._url)}"
        self._make_kafka = make_kafka
        self._kafka_backend: Backend | None = None

    def send(self, record: OutgoingRecord) -> Sent:
        return self._kafka.send(record)

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, Document]]:
        return self._kafka.answers(sent, timeout_s)

    def events(self, recovery: str, since: str | None = None) -> list[Document]:
        return self._kafka.events(recovery, since)

    def statuses(self, ended: int | None = None) -> dict[str, Document]:
        """`ended`: so many of those that have ended, the last ones, do; an older daemon gives all."""
        found: dict[str, Document] = {}
        few = "" if ended is None else f"&ended={ended}"
        for page in range(_MAX_PAGES):
            path = f"/api/v1/recoveries?limit={_PAGE}&offset={page * _PAGE}{few}"
            body = self._get(path) or {}
            rows, total = body.get("recoveries", []), body.get("total", 0)
            if not (isinstance(total, int) and isinstance(rows, list) and all(_is_status(row) for row in rows)):
                raise self._strange(path)
            found.update({document["recovery"]: document for document in rows})
            if (page + 1) * _PAGE >= total:
                break
        if not found:
            self._require_leader()
        return found

    def status(self, recovery: str) -> Document | None:
        path = f"/api/v1/recoveries/{urllib.parse.quote(recovery, safe='')}"
        document = self._get(path)
        if document is None:
            self._require_leader()
        elif not _is_status(document):
            raise self._strange(path)
        return document

    def lag(self) -> Document:
        """Lag of the watched groups, as the daemon says it."""
        self._require_leader()
        found: Document = self._get("/api/v1/lag") or {}
        if "groups" not in found:
            raise _unreachable(f"The daemon at {self._place} tells no lag: it is older than this program.")
        return found

    def control(self) -> Document:
        """What is protected, and what the controllers decided last."""
        found: Document = self._get("/api/v1/control") or {}
        return found

    def log(self, recovery: str, attempt: int | None, lines: int) -> Document:
        """The last lines of an attempt's log. Raises `Failure` where the daemon has none."""
        number = "" if attempt is None else f"&attempt={attempt}"
        path = f"/api/v1/recoveries/{urllib.parse.quote(recovery, safe='')}/logs?lines={lines}{number}"
        try:
            found: Document | None = self._get(path)
        except _RefusedError as refusal:
            raise Failure(Code.NO_LOG, refusal.text) from refusal
        if found is None:
            self._require_leader()
            raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
        return found

    def metrics(self) -> str:
        """The text that Prometheus gets."""
        page = self._ask("/metrics")
        if page.status != 200:
            raise self._strange("/metrics", page.status)
        return page.body.decode(errors="replace")

    def follow(self, recovery: str) -> Iterator[Document | None]:
        """Asks every half second; a daemon that is away for a moment (a restart) is asked again."""
        seen: Document | None = None
        for answer in answers(lambda: self.status(recovery), self._place):
            if answer is None:
                yield None
                continue
            yield answer.value if answer.value != seen else None
            seen = answer.value

    def follow_all(self) -> Iterator[Document | None]:
        """Asks every half second, as `follow` does."""
        seen: dict[str, Document] = {}
        for answer in answers(self.statuses, self._place):
            if answer is not None:
                yield from (document for name, document in answer.value.items() if seen.get(name) != document)
                seen = answer.value
            yield None

    def close(self) -> None:
        if self._kafka_backend is not None:
            self._kafka_backend.close()

    @property
    def _kafka(self) -> Backend:
        if self._kafka_backend is None:
            self._kafka_backend = self._make_kafka()
        return self._kafka_backend

    def _require_leader(self) -> None:
        """A standby knows no recovery, which must not be taken for there being none; older daemons did not say so."""
        ready = self._get("/readyz", or_503=True) or {}
        if not ready.get("ready"):
            raise _unreachable(f"The daemon at {self._place} is not ready (role {ready.get('role', 'unknown')}).")

    def _get(self, path: str, *, or_503: bool = False) -> Document | None:
        """What it says; None when the daemon says that there is no such recovery."""
        page = self._ask(path)
        body = _object(page.body)
        said = body.get("error") if body is not None else None
        error: Document = said if isinstance(said, dict) else {}
        code = error.get("code")
        if body is not None and (page.status == 200 or (or_503 and page.status == 503 and "ready" in body)):
            return body
        if code == Code.NO_SUCH_RECOVERY.value:
            return None
        if code == Code.NO_LOG.value:
            raise _RefusedError(str(error.get("message") or ""))
        if code == Code.DAEMON_NOT_LOADED.value:
            self._require_leader()
            raise RecoverydError(Code.DAEMON_NOT_LOADED, retriable=True)  # it leads since it was asked
        if code == Code.DAEMON_BUSY.value:
            raise RecoverydError(Code.DAEMON_BUSY, retriable=True)
        raise self._strange(path, page.status)

    def _ask(self, path: str) -> Page:
        try:
            return ask(self._url + path, _TIMEOUT_S)
        except UNANSWERED as error:
            raise _unreachable(f"No daemon answers at {self._place}: {getattr(error, 'reason', error)}.") from error

    def _strange(self, path: str, status: int = 200) -> RecoverydError:
        """A proxy, say, or another program at this address."""
        what = f"answered {status}" if status != 200 else "answered what is no such JSON"
        way = self._place.removeprefix(self._url)
        return _unreachable(f"{self._url}{path}{way and ', asked'}{way}{way and ','} {what}, which no recoveryd does.")


def read_lag(url: str) -> Document:
    """`GET /api/v1/lag` of the leader: `{"at", "groups": [...]}`. A standby has no samples, so it is refused like a
    daemon that does not answer.
    """
    reader = HttpReader(url, no_kafka)
    return reader.lag()


def no_kafka() -> Backend:
    raise AssertionError("this comes from the HTTP API alone")


def check_url(url: str) -> str:
    """`http://host:port`; a bare `host:port` is taken for http."""
    full = url if "://" in url else f"http://{url}"
    no_address = usage(f"--http `{url}` is no address.", "Write it like http://127.0.0.1:8712.")
    try:
        parts = urllib.parse.urlsplit(full)
        is_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, or a port that is none
        raise no_address from None
    if "@" in parts.netloc:  # would be kept and shown, and is never sent
        raise usage("--http holds a user or a password.", "Give it as http://HOST:PORT; the API takes neither.")
    if parts.scheme not in {"http", "https"} or not is_place:
        raise no_address
    return full.rstrip("/")


def _object(body: bytes) -> Document | None:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_status(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("recovery"), str) and isinstance(row.get("state"), str)


def _unreachable(message: str) -> RecoverydError:
    hint = "Check --http, and that the daemon runs; `list`, `get` and `watch` read from Kafka without --http."
    return RecoverydError(Code.CLUSTER_UNREACHABLE, message, hint, retriable=True)
