"""The output of the demo: a progress bar on a terminal, plain lines elsewhere, with the same words."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from recoveryd_sandbox.daemon_process import DaemonProcess
from recoveryd_sandbox.live import LiveStats

Status = dict[str, Any]
LINE_EVERY_S = 2.0
SLO_SECONDS = "recoveryd_live_slo_violation_seconds_total"
STEP_CHARS = 130


class Screen:
    """All output of the demo goes through here."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = 110
        self._began_s = time.monotonic()

    def title(self, text: str) -> None:
        self.console.print(f"\n[bold cyan]{escape(text)}[/]")

    def say(self, text: str) -> None:
        self.console.print(text)

    def fail(self, text: str) -> None:
        self.console.print(f"[red]{escape(text)}[/]")

    def strong(self, text: str) -> str:
        return f"[bold]{escape(text)}[/]"

    def record(self, topic: str, record: Status) -> None:
        self.console.print(f"a plain Kafka producer writes to {self.strong(topic)}:")
        text = "  " + json.dumps(record)
        for key in ('"type":', '"data":', '"source": {', '"target":'):
            text = text.replace(f", {key}", f",\n   {key}")
        self.console.print(escape(text), style="dim")

    def step(self, step: Status) -> None:
        """One step of a workflow that is done."""
        self.console.print(f"  [green]{step['name']}[/]: {escape(shortened(step['why']))}")

    def gave_way(self, before: float, status: Status) -> None:
        """The rule that made the controller take rate away."""
        limits = status["limits"]
        self.console.print(
            f"{self.strong('the replay gives way')}: {before / 1e6:.1f} to {limits['effective_bytes_per_s'] / 1e6:.1f} "
            f"MB/s, since {escape(limits['rule'])}"
        )

    def came_back(self, status: Status) -> None:
        limits = status["limits"]
        self.console.print(
            f"{self.strong('and comes back')}: {limits['effective_bytes_per_s'] / 1e6:.1f} MB/s, since "
            f"{escape(limits['rule'])}"
        )

    def promise(self, sentence: str, *, holds: bool) -> str:
        """The sentence if it does not hold, else nothing."""
        mark = "[green]holds:[/]" if holds else "[red]broken:[/]"
        self.console.print(f"{mark} {escape(sentence)}")
        return "" if holds else sentence

    def verdict(self, broken: Sequence[str]) -> None:
        """The end of a demo: how long it took, and which promises did not hold."""
        for sentence in broken:
            self.fail(f"Not as promised: {sentence}.")
        if not broken:
            self.console.print(f"\nDone in {time.monotonic() - self._began_s:.0f} s. Everything was as promised.")

    @contextmanager
    def progress(self, recovery: str) -> Iterator[Callable[[Status], None]]:
        """Yields a function that shows a status: on a terminal in place, elsewhere as a line per change."""
        if not self.console.is_terminal:
            yield _PlainLines(self.console, recovery)
            return
        columns = (TextColumn("  [bold]{task.description}[/]"), BarColumn(30), TextColumn("{task.fields[told]}"))
        with Progress(*columns, console=self.console, transient=False) as bar:
            task = bar.add_task(recovery, total=1.0, told="")

            def show(status: Status) -> None:
                bar.update(task, completed=_share(status), told=f"{status['state']:<10} {_rates(status)}")

            yield show

    def outcome(self, status: Status) -> None:
        """State, stop reason, completeness table and verification."""
        colour = "green" if status["state"] == "completed" else "red"
        stop = status.get("stop") or {}
        self.console.print(f"[{colour}]{status['state']}[/] - {escape(status['why'])}")
        if stop:
            self.console.print(f"auto-stop: {stop['reason']} ({stop.get('mode') or 'limit'})")
        names = ("partition", "from", "to", "offsets", "copied", "filtered", "skipped", "lost", "unexplained")
        table = Table(*names, title="offsets = copied + filtered + skipped + lost + unexplained", title_justify="left")
        for row in status.get("completeness") or []:
            table.add_row(*(f"{row[n]:,}" for n in names))
        self.console.print(table)
        found = status.get("verification") or {}
        if found:
            counts = f"{found['source_records']:,} records read, {found['target_records']:,} found in the target"
            self.console.print(f"verification by an independent reader: {self.strong(found['result'])} ({counts})")

    def paused(self, status: Status) -> None:
        positions = ", ".join(f"{p['partition']}: {p['position']:,}" for p in status["progress"]["partitions"])
        self.console.print(f"{self.strong(status['state'])}, drained, exact positions: {positions}")

    def protection(self, daemon: DaemonProcess | None) -> None:
        """What the controller decided, and how live traffic fared."""
        if daemon is None:
            return
        rules = daemon.metrics("recoveryd_control_rule_total")
        told = ", ".join(f"{_label(series, 'rule')} {count:.0f}" for series, count in rules.items() if count)
        bad_s = sum(daemon.metrics(SLO_SECONDS).values())
        self.console.print(f"the controller's decisions by rule: {told}; live traffic over its SLO for {bad_s:.0f} s")

    def live(self, stats: LiveStats) -> None:
        p50, p99 = stats.latency_p50_ms, stats.latency_p99_ms
        times = f", produce latency p50 {p50:.0f} ms, p99 {p99:.0f} ms" if p50 is not None and p99 is not None else ""
        self.console.print(
            f"meanwhile live traffic: {stats.acked_records:,} records acknowledged, {stats.failed_records} "
            f"failed{times}"
        )

    def next_steps(self) -> None:
        self.console.print(
            """
What you saw: a command on a topic, a plan, exactly-once copies by Spark lanes, an auto-stop at zero lag, an equation
that adds up, a rate that yields to live traffic, and a drained pause. To drive it yourself:

  . .venv/bin/activate
  export RECOVERYD_BOOTSTRAP_SERVERS=$(recoveryctl sandbox up)
  recoveryctl sandbox seed && recoveryctl topics apply
  recoveryd run &
  recoveryctl replay --source flights --from earliest --to latest --target flights.v2 --create --reason "trying it" --yes --wait
  recoveryctl sandbox down
"""
        )


class _PlainLines:
    """A line at each change of state and every two seconds of copying."""

    def __init__(self, console: Console, recovery: str) -> None:
        self._console, self._recovery = console, recovery
        self._state, self._told, self._last_s = "", "", 0.0

    def __call__(self, status: Status) -> None:
        now_s = time.monotonic()
        told = f"  {self._recovery}: {status['state']:<10} {_rates(status)}".rstrip()
        too_soon = status["state"] == self._state and now_s - self._last_s < LINE_EVERY_S
        if too_soon or told == self._told:
            return
        self._state, self._last_s, self._told = status["state"], now_s, told
        self._console.print(told)


def shortened(text: str) -> str:
    return text if len(text) <= STEP_CHARS else f"{text[:STEP_CHARS]} ..."


def _share(status: Status) -> float:
    rows = (status.get("progress") or {}).get("partitions") or []
    starts = {p["partition"]: p["start"] for p in (status.get("plan") or {}).get("source", {}).get("partitions", [])}
    total = sum((r["stop"] or 0) - starts.get(r["partition"], 0) for r in rows)
    return sum(r["position"] - starts.get(r["partition"], 0) for r in rows) / total if total > 0 else 0.0


def _rates(status: Status) -> str:
    progress = status.get("progress") or {}
    if not progress.get("records") and not progress.get("lag_records"):
        return ""
    parts = [f"{progress['records']:,} copied", f"lag {progress['lag_records']:,}"]
    if progress.get("records_per_s"):
        parts.append(f"{progress['records_per_s']:,.0f} records/s, {progress['bytes_per_s'] / 1e6:.1f} MB/s")
    if progress.get("eta_seconds"):
        parts.append(f"ETA {progress['eta_seconds']:.0f} s")
    limits = status.get("limits") or {}
    if limits.get("effective_bytes_per_s") is not None and status.get("state") == "running":
        parts.append(f"granted {limits['effective_bytes_per_s'] / 1e6:.1f} MB/s: {limits.get('rule') or ''}")
    return ", ".join(parts)


def _label(series: str, name: str) -> str:
    """The value of the label `name` in a series as /metrics writes it."""
    return series.partition(f'{name}="')[2].partition('"')[0]
