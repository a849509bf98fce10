"""`python -m grafana.pictures` makes the pictures of the docs from a real run on its own broker: about six minutes."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grafana.pictures.answers import Span
from grafana.pictures.binaries import Unavailable, find_prometheus
from grafana.pictures.board_file import load
from grafana.pictures.page import draw_board
from grafana.pictures.prometheus_server import QueryFailed
from grafana.pictures.real_run import RealRun, Scene
from grafana.pictures.story import Story
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import SandboxError

PANELS = "panels.json"
_RECOVERY = "orders-again"
_AFTER_S = 12.0
_DEADLINE_S = 1_200.0
_DOUBLE_S = 30.0
# A group reads the live orders, and has room for a third more than usual, while those of the last two days are replayed
# on the same small broker. Its lag grows by a second in five while live traffic is double.
_SCENE = Scene(
    backlog_records=300_000,
    live_records_per_s=300.0,
    reader_records_per_s=480.0,
    to="caught_up",
    most_bytes_per_s=3_000_000,
    calm_s=25.0,
    slo="10s",
    latency_slo="1s",
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`only` names panels, none = all that are not folded. `while_running`: as it looked when the replay had given way,
    not after the end.
    """

    name: str
    board: str
    only: Sequence[str] = ()
    while_running: bool = False


_NEXT_TO_LIVE = (
    "Share of SLO used now", "Share of SLO used", "Rule that sets the rate", "Requested, granted and achieved rate",
    "Auto-stops", "Records written", "Live lag", "States",
)  # fmt: skip
# Series of partitions are there only while it runs.
_AT_WORK = (
    "State", "Done", "Left at this rate", "Records left", "Attempt", "Position against stop", "Offsets left",
    "Partitions by state",
)  # fmt: skip
PICTURES = (
    Picture("replay-next-to-live", "replay-and-live", _NEXT_TO_LIVE),
    Picture("replay-and-live", "replay-and-live"),
    Picture("recovery", "recovery"),
    Picture("recovery-at-work", "recovery", _AT_WORK, while_running=True),
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
                story = Story(run.live, _SCENE.live_records_per_s, _SCENE.most_bytes_per_s, _DOUBLE_S)
                status = run.replay(_RECOVERY, _DEADLINE_S, story.look)
                print(f"{_RECOVERY}: {status['state']}, {status['progress']['records']:,} records", flush=True)
                time.sleep(_AFTER_S)  # so that the picture shows what comes after the end
                _make_all(run, story, asked.out)
                story.check()
    except (Unavailable, QueryFailed, SandboxError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _make_all(run: RealRun, story: Story, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    whole = Span(run.started_s + 4, time.time() - 1, run.scene.scrape_s)
    variables: Mapping[str, str] = {"recovery": _RECOVERY}
    for picture in PICTURES:
        span = replace(whole, end_s=story.halved_s) if picture.while_running else whole
        png = out / f"{picture.name}.png"
        draw_board(run.prometheus, picture.board, span, variables, picture.only, unfolded=False).savefig(png)
        print(f"{png}: {png.stat().st_size / 1000:.0f} kB")
    (out / PANELS).write_text(json.dumps(panels_drawn(), indent=1) + "\n", encoding="utf-8")


def panels_drawn() -> dict[str, dict[str, str]]:
    """What each picture is of: the digests of its panels by their titles. Written next to the pictures, so that a test
    can tell when a dashboard looks different by now.
    """
    return {
        picture.name: {
            panel.title: panel.drawn
            for panel in load(picture.board).panels
            if not panel.is_folded and (panel.title in picture.only if picture.only else True)
        }
        for picture in PICTURES
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
