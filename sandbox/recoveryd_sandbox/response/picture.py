"""A measured response as a picture: what live traffic saw at each rate of the replay."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from recoveryd.plots import Line, Panel, plot
from recoveryd.simulation.response import Response, ResponseStep


def draw(path: Path, response: Response) -> None:
    """A line through the means of the repeats, and a dot for each step."""
    panels = [
        Panel(
            "Canary: acknowledgements of an observer's own records",
            "ms",
            [
                *_lines(response, "p50", lambda s: s.canary_p50_ms),
                *_lines(response, "p90", lambda s: s.canary_p90_ms),
                *_lines(response, "p99", lambda s: s.canary_p99_ms),
            ],
            response.slo_p99_ms,
            is_log=True,
        ),
        Panel("Live application: p99 of a usual second", "ms", _lines(response, "p99", lambda s: s.live_p99_ms)),
        Panel("Longest time lag of the live consumer", "s", _lines(response, "lag", lambda s: s.lag_s)),
        Panel("Broker", "cores", _lines(response, "used", lambda s: s.broker_cores)),
    ]
    title = f"{response.live_records_per_s:,.0f} live records/s beside a replay, on {response.machine.cores} cores"
    plot(path, panels, title, "MB/s of the replay")


def _lines(response: Response, label: str, value: Callable[[ResponseStep], float]) -> list[Line]:
    places = sorted((fmean(s.bytes_per_s for s in response.at(share)) / 1e6, share) for share in response.shares)
    means = [fmean(value(step) for step in response.at(share)) for _, share in places]
    dots = sorted((step.bytes_per_s / 1e6, value(step)) for step in response.steps)
    return [
        Line(label, [at for at, _ in places], means),
        Line("", [at for at, _ in dots], [found for _, found in dots], is_dots=True),
    ]
