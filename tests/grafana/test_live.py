"""A real Prometheus scrapes a real daemon during a real replay next to live traffic; then it answers every query of
every dashboard and every alert.

One run serves all tests of the module. What may be empty is listed with its reason; everything else must have answers.
"""

import contextlib
import itertools
import math
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from grafana.pictures.answers import Answered, Span, ask_marks, ask_panel
from grafana.pictures.binaries import Binaries
from grafana.pictures.board_file import BOARDS, BoardFile, PanelFile, load
from grafana.pictures.page import draw_board
from grafana.pictures.prometheus_server import RULES
from grafana.pictures.real_run import RealRun, Scene, Status
from tests.builders.core import BOOK
from tests.e2e.processes import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

ALERTS = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
PANELS = [(board, panel) for board in map(load, BOARDS) for panel in board.panels if panel.kind != "row"]
_RECOVERY = "orders-again"

# Queries that have no answer after a healthy short replay of a bounded range, with the reason.
PANELS_THAT_MAY_BE_EMPTY = {
    "On the way to a stop": "only a recovery that follows the live head is a candidate",
    "Behind": "a backlog of days lies outside the sampled history",
    "Schedules": "the daemon has none",
    "Alerts": "a healthy daemon has none that fire",
    "Under-replicated partitions": "Kafka's JMX exporter does not run here",
    "Request latency of brokers": "Kafka's JMX exporter does not run here",
    "Secrets that were refused": "every secret was taken",
    "Webhooks told of transitions": "nobody is told of transitions here",
}
VARIABLES_THAT_MAY_BE_EMPTY = {"brokers": "Kafka's JMX exporter does not run here"}
METRICS_THAT_MAY_BE_EMPTY = {"recoveryd_retention_slack_seconds": "the source keeps everything"}


@dataclass
class Ran:
    run: RealRun
    span: Span
    running_at_s: float
    state: str
    copied: int
    fired: set[str]
    pages: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def ran(bootstrap: str, prometheus_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    tag = f"t{time.time_ns() % 10**9}-"
    folder = tmp_path_factory.mktemp("prometheus-run")
    pages: list[str] = []
    seen_s: list[float] = []

    def look(_: Status) -> None:
        if len(pages) < 500 and 'state="running"} 1.0' in (page := run.daemon.get("/metrics")[1]):
            pages.append(page)
            seen_s.append(time.time())

    # A broker of a busy machine answers late, which is no reason to slow this replay down.
    scene = Scene(backlog_records=30_000, most_bytes_per_s=4_000_000, slo="5m", latency_slo="30s")
    with RealRun(bootstrap, folder, prometheus_binaries, scene, tag) as run:
        status = run.replay(_RECOVERY, deadline_s=600.0, while_running=look)
        ended_s = time.time()
        wait_for(lambda: has_scraped(run, ended_s), 60.0)  # so that the end is scraped too
        span = Span(run.started_s, time.time(), run.scene.scrape_s)
        fired: set[str] = set()

        def is_silent() -> bool:
            """A machine that stood still is an alert for a moment."""
            fired.clear()
            fired.update(alert["labels"]["alertname"] for alert in run.prometheus.get("alerts")["alerts"])
            return not fired

        with contextlib.suppress(AssertionError):  # told by the tests
            wait_for(is_silent, 12.0)
        yield Ran(run, span, seen_s[len(seen_s) // 2], status["state"], status["progress"]["records"], fired, pages)


def has_scraped(run: RealRun, since_s: float) -> bool:
    """Whether the daemon was scraped twice after that moment."""
    found = run.prometheus.query('timestamp(up{job="recoveryd"} == 1)')
    return any(value >= since_s + 2 * run.scene.scrape_s for series in found for _, value in series.points)


def named(pair: tuple[BoardFile, PanelFile]) -> str:
    return f"{pair[0].name}/{pair[1].title}"


def is_excused(expr: str) -> bool:
    return any(name in expr for name in METRICS_THAT_MAY_BE_EMPTY)


def values_of(answer: Answered, ref: str) -> list[float]:
    return [v for n in answer.found if n.target.ref == ref for _, v in n.series.points if not math.isnan(v)]


def looks_of(ran: Ran) -> list[float]:
    """1 for each second whose last look at the daemon was good."""
    up = ran.run.prometheus.query_range('up{job="recoveryd"}', ran.span.start_s + 5, ran.span.end_s, 1.0)
    return [v for series in up for _, v in series.points]


def test_the_replay_was_a_real_one_and_prometheus_saw_all_of_it(ran: Ran) -> None:
    assert ran.state == "completed"
    looks = looks_of(ran)
    assert looks[-1] == 1.0
    assert looks.count(1.0) > len(looks) / 2, "a sample may be late on a busy machine, which is no alert"
    [copied] = ran.run.prometheus.query('recoveryd_records_total{traffic="replay"}')
    assert copied.points[0][1] == ran.copied >= ran.run.scene.backlog_records


@pytest.mark.parametrize("pair", PANELS, ids=named)
def test_every_query_of_a_panel_is_taken_and_has_answers(ran: Ran, pair: tuple[BoardFile, PanelFile]) -> None:
    _, panel = pair
    whole = ask_panel(ran.run.prometheus, panel, ran.span, {"recovery": _RECOVERY})
    half = ask_panel(ran.run.prometheus, panel, replace(ran.span, end_s=ran.running_at_s), {"recovery": _RECOVERY})
    empty = [t.expr for t in panel.targets if not values_of(whole, t.ref) and not values_of(half, t.ref)]
    assert [expr for expr in empty if panel.title not in PANELS_THAT_MAY_BE_EMPTY and not is_excused(expr)] == []


@pytest.mark.parametrize("name", BOARDS)
def test_annotations_mark_the_life_of_the_recovery(ran: Ran, name: str) -> None:
    marks = [m.text for m in ask_marks(ran.run.prometheus, load(name), ran.span, {"recovery": _RECOVERY})]
    if name != "daemon-and-jobs":
        wanted = [text for text in marks if text in {"running", "verifying", "completed"}]
        # A state is marked once more where a look in the middle of it failed, as on a busy machine.
        assert len(wanted) == 3 or looks_of(ran).count(0.0)
        assert [text for text, _ in itertools.groupby(wanted)] == ["running", "verifying", "completed"]


@pytest.mark.parametrize("name", BOARDS)
def test_the_values_to_choose_from_are_found(ran: Ran, name: str) -> None:
    for variable in load(name).variables:
        if variable["type"] == "query":
            asked = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
            series, _, label = asked.rpartition(",")
            selector = series.replace("$job", ".*")
            values = {s.labels.get(label.strip()) for s in ran.run.prometheus.query(f"last_over_time({selector}[5m])")}
            assert (values - {None}) or variable["name"] in VARIABLES_THAT_MAY_BE_EMPTY, asked


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_every_alert_is_taken_and_stays_silent_on_a_healthy_daemon(ran: Ran, rule: dict[str, str]) -> None:
    loaded = {r["name"]: r for g in ran.run.prometheus.get("rules")["groups"] for r in g["rules"]}
    assert (loaded[rule["alert"]]["health"], loaded[rule["alert"]].get("lastError")) == ("ok", None)
    ran.run.prometheus.query(rule["expr"])
    assert rule["alert"] not in ran.fired


def test_the_page_of_metrics_has_the_whole_catalogue_and_nothing_promtool_minds(
    ran: Ran, prometheus_binaries: Binaries
) -> None:
    page = ran.pages[len(ran.pages) // 2]
    assert {m.name for m in BOOK.metrics} - {
        line.split()[2] for line in page.splitlines() if line.startswith("# HELP")
    } == set()
    done = subprocess.run(
        [str(prometheus_binaries.promtool), "check", "metrics"],
        input=page,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", BOARDS)
def test_each_dashboard_becomes_a_picture(ran: Ran, name: str, tmp_path: Path) -> None:
    picture = draw_board(ran.run.prometheus, name, ran.span, {"recovery": _RECOVERY})
    assert [axes.get_label() for axes in picture.axes[1:]] == [
        panel.title for board, panel in PANELS if board.name == name
    ]
    picture.savefig(tmp_path / "page.png")
    assert 20_000 < (tmp_path / "page.png").stat().st_size < 600_000
