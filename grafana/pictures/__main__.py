"""`python -m grafana.pictures` makes the pictures of the docs from a real run on its own broker: about four minutes."""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grafana.pictures.answers import Span
from grafana.pictures.binaries import Unavailable, find_prometheus
from grafana.pictures.page import draw_board
from grafana.pictures.prometheus_server import QueryFailed
from grafana.pictures.real_run import RealRun, Scene
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import SandboxError

_RECOVERY = "orders-again"
_AFTER_S = 12.0
_DEADLINE_S = 400.0
# A group reads the live orders while those of the last two days are replayed on the same small broker.
_SCENE = Scene(
    backlog_records=600_000,
    live_records_per_s=800.0,
    most_bytes_per_s=16_000_000,
    calm_s=25.0,
    slo="10s",
    latency_slo="150ms",
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`only` names panels, none = all. `while_running`: as it looked at three quarters of the run, not after it."""

    name: str
    board: str
    only: Sequence[str] = ()
    while_running: bool = False


_NEXT_TO_LIVE = (
    "Records written", "Bytes written", "Live lag", "Produce latency of the canary",
    "Requested, granted and achieved rate", "Share of SLO used",
    "Rule that sets the rate", "States",
)  # fmt: skip
_PICTURES = (
    Picture("replay-next-to-live", "replay-and-live", _NEXT_TO_LIVE),
    Picture("replay-and-live", "replay-and-live", while_running=True),
    Picture("recovery", "recovery", while_running=True),
    Picture("daemon-and-jobs", "daemon-and-jobs"),
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m grafana.pictures", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/img"), help="folder of the PNG files")
    parser.add_argument("--keep", type=Path, help="folder for the logs of the run; a temporary one when left out")
    asked = parser.parse_args(arguments)
    try:
        binaries = find_prometheus()
        with tempfile.TemporaryDirectory(prefix="recoveryd-pictures-") as temporary:
            work = asked.keep or Path(temporary)
            with Broker(work / "kafka") as broker, RealRun(broker.bootstrap, work / "run", binaries, _SCENE) as run:
                running_s: list[float] = []
                status = run.replay(_RECOVERY, _DEADLINE_S, lambda: running_s.append(time.time()))
                print(f"{_RECOVERY}: {status['state']}, {status['progress']['records']:,} records", flush=True)
                time.sleep(_AFTER_S)  # so that the picture shows what comes after the end
                _make_all(run, running_s[len(running_s) * 3 // 4], asked.out)
    except (Unavailable, QueryFailed, SandboxError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _make_all(run: RealRun, running_s: float, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    whole = Span(run.started_s + 4, time.time() - 1, run.scene.scrape_s)
    variables: Mapping[str, str] = {"recovery": _RECOVERY}
    for picture in _PICTURES:
        span = replace(whole, end_s=running_s) if picture.while_running else whole
        png = out / f"{picture.name}.png"
        draw_board(run.prometheus, picture.board, span, variables, picture.only).savefig(png)
        print(f"{png}: {png.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
