"""A temporary Prometheus: a process in a temporary folder that scrapes given targets, and its HTTP API."""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from grafana.pictures.binaries import Binaries
from recoveryd_sandbox.ports import free_ports

RULES = Path(__file__).resolve().parents[1] / "prometheus" / "recoveryd.rules.yml"
_READY_DEADLINE_S = 30.0
_STOP_DEADLINE_S = 15.0
_HTTP_TIMEOUT_S = 15.0
_POLL_S = 0.05


class QueryFailed(Exception):  # noqa: N818  (told to people as it is)
    """Prometheus refused a query, or could not be asked."""


@dataclass(frozen=True, slots=True)
class Series:
    """`labels` without the metric's name; `points` are (unix seconds, value), one of them for an instant query."""

    name: str
    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


class PrometheusServer:
    """Use it as a context manager. `targets` are `host:port`; the job is `recoveryd`, as the alert rules expect."""

    def __init__(self, binaries: Binaries, folder: Path, targets: Sequence[str], scrape_s: float = 1.0) -> None:
        self._binary = binaries.prometheus
        self._folder = folder
        self._targets = list(targets)
        self._scrape_s = scrape_s
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(self._config()), encoding="utf-8")
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(self._binary), f"--config.file={config}", f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn",
                    "--query.lookback-delta=10s",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._folder,
            )  # fmt: skip
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_DEADLINE_S)

    def query(self, expr: str, at_s: float | None = None) -> list[Series]:
        """Values now, or at a time. Raises `QueryFailed` with what Prometheus says."""
        asked = {"query": expr} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        return _series(self.get("query", asked))

    def query_range(self, expr: str, start_s: float, end_s: float, step_s: float) -> list[Series]:
        asked = {"query": expr, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return _series(self.get("query_range", asked))

    def get(self, what: str, asked: Mapping[str, str] | None = None) -> Any:
        """The `data` of `/api/v1/<what>`."""
        body = urllib.parse.urlencode(dict(asked)).encode() if asked is not None else None  # POST: queries may be long
        try:
            url = f"{self.url}/api/v1/{what}"
            with urllib.request.urlopen(url, data=body, timeout=_HTTP_TIMEOUT_S) as reply:  # noqa: S310
                return json.load(reply)["data"]
        except urllib.error.HTTPError as refusal:
            raise QueryFailed(f"{asked}: {refusal.read().decode(errors='replace')}") from None
        except OSError as error:
            raise QueryFailed(f"{asked}: {error}") from None

    def _config(self) -> dict[str, Any]:
        every = f"{self._scrape_s * 1000:.0f}ms"
        return {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "recoveryd", "static_configs": [{"targets": self._targets}]}],
        }

    def _await_ready(self) -> None:
        give_up_at_s = time.monotonic() + _READY_DEADLINE_S
        while not self._is_ready():
            gone = self._process is None or self._process.poll() is not None
            if gone or time.monotonic() >= give_up_at_s:
                log = (self._folder / "prometheus.log").read_text(errors="replace")
                raise QueryFailed(f"Prometheus did not start: {log[-1000:]}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_HTTP_TIMEOUT_S) as reply:  # noqa: S310
                return bool(reply.status == 200)
        except OSError:
            return False


def _series(data: Any) -> list[Series]:
    if data["resultType"] == "scalar":
        return [Series("", {}, (_point(data["result"]),))]
    found = []
    for one in data["result"]:
        labels = dict(one["metric"])
        points = one["values"] if "values" in one else [one["value"]]
        found.append(Series(labels.pop("__name__", ""), labels, tuple(_point(p) for p in points)))
    return found


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
