"""Reading status through the daemon's HTTP API (`--http URL`), for people who can reach the daemon but not the brokers.

Commands and events still go through Kafka: the API is read-only and has no events. Plain `urllib`, because a few small
requests need no more.
"""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recoveryd.cli.failure import Failure, usage
from recoveryd.cli.send.backend import Backend, OutgoingRecord, Sent
from recoveryd.cli.status import Document
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code

_TIMEOUT_S = 30.0  # an address where nothing listens refuses at once
_POLL_S = 0.5
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
        self._make_kafka = make_kafka
        self._kafka_backend: Backend | None = None

    def send(self, record: OutgoingRecord) -> Sent:
        return self._kafka.send(record)

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, Document]]:
        return self._kafka.answers(sent, timeout_s)

    def events(self, recovery: str, since: str | None = None) -> list[Document]:
        return self._kafka.events(recovery, since)

    def statuses(self) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for page in range(_MAX_PAGES):
            body = self._get(f"/api/v1/recoveries?limit={_PAGE}&offset={page * _PAGE}") or {}
            found.update({document["recovery"]: document for document in body.get("recoveries", [])})
            if (page + 1) * _PAGE >= int(body.get("total", 0)):
                break
        if not found:
            self._require_leader()
        return found

    def status(self, recovery: str) -> Document | None:
        document: Document | None = self._get(f"/api/v1/recoveries/{urllib.parse.quote(recovery, safe='')}")
        if document is None:
            self._require_leader()
        return document

    def lag(self) -> Document:
        """Lag of the watched groups, as the daemon says it."""
        self._require_leader()
        found: Document = self._get("/api/v1/lag") or {}
        if "groups" not in found:
            raise _unreachable(f"The daemon at {self._url} tells no lag: it is older than this program.")
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
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=_TIMEOUT_S) as answer:  # noqa: S310  (scheme checked)
                text: bytes = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(f"No daemon answers at {self._url}: {getattr(error, 'reason', error)}.") from error
        return text.decode(errors="replace")

    def follow(self, recovery: str) -> Iterator[Document | None]:
        """Asks every half second; a daemon that is away for a moment (a restart) is asked again."""
        seen: Document | None = None
        while True:
            try:
                document = self.status(recovery)
            except RecoverydError as error:
                if not error.retriable or seen is None:
                    raise
                document = seen
            yield document if document != seen else None
            seen = document
            time.sleep(_POLL_S)

    def follow_all(self) -> Iterator[Document | None]:
        """Asks every half second, as `follow` does."""
        seen: dict[str, Document] | None = None
        while True:
            try:
                documents = self.statuses()
            except RecoverydError as error:
                if not error.retriable or seen is None:
                    raise
                documents = seen
            yield from (document for name, document in documents.items() if (seen or {}).get(name) != document)
            yield None
            seen = documents
            time.sleep(_POLL_S)

    def close(self) -> None:
        if self._kafka_backend is not None:
            self._kafka_backend.close()

    @property
    def _kafka(self) -> Backend:
        if self._kafka_backend is None:
            self._kafka_backend = self._make_kafka()
        return self._kafka_backend

    def _require_leader(self) -> None:
        """A standby knows no recovery, which must not be taken for there being none."""
        ready = self._get("/readyz", or_503=True) or {}
        if not ready.get("ready"):
            raise _unreachable(f"The daemon at {self._url} is not ready (role {ready.get('role', 'unknown')}).")

    def _get(self, path: str, *, or_503: bool = False) -> Any:
        """Parsed JSON; None when the daemon says that there is no such recovery."""
        try:
            with urllib.request.urlopen(self._url + path, timeout=_TIMEOUT_S) as answer:  # noqa: S310  (scheme checked)
                return json.load(answer)
        except urllib.error.HTTPError as error:
            body = _json_or_nothing(error.read())
            if or_503 and error.code == 503:
                return body
            if (body.get("error") or {}).get("code") == Code.NO_SUCH_RECOVERY.value:
                return None
            if (body.get("error") or {}).get("code") == Code.NO_LOG.value:
                raise _RefusedError(str(body["error"].get("message") or "")) from error
            if (body.get("error") or {}).get("code") == Code.DAEMON_BUSY.value:
                raise RecoverydError(Code.DAEMON_BUSY, retriable=True) from error
            raise _unreachable(f"{self._url}{path} answered {error.code}, which no recoveryd does.") from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # also an answer that ends in the middle
            reason = getattr(error, "reason", error)
            raise _unreachable(f"No daemon answers at {self._url}: {reason}.") from error


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
    except ValueError:  # a bracket that is not closed
        raise no_address from None
    if "@" in parts.netloc:  # would be kept and shown, and is never sent
        raise usage("--http holds a user or a password.", "Give it as http://HOST:PORT; the API takes neither.")
    if parts.scheme not in {"http", "https"}:
        raise no_address
    return full.rstrip("/")


def _json_or_nothing(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _unreachable(message: str) -> RecoverydError:
    hint = "Check --http, and that the daemon runs; `list`, `get` and `watch` read from Kafka without --http."
    return RecoverydError(Code.CLUSTER_UNREACHABLE, message, hint, retriable=True)
