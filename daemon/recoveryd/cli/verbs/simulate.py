"""`recoveryctl simulate`: the controller against other policies on a model of a broker, with the very rules the daemon
runs.

The model and the judge are `recoveryd.simulation`; here are names as they are typed, tables, and the picture of one
run.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.simulation.report import Curve
    from recoveryd.simulation.response import Response
    from recoveryd.simulation.scenarios import Scenario
    from recoveryd.simulation.study import Study

from recoveryd.cli.failure import ExitCode, invalid
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import note, show
from recoveryd.kernel.catalogue import Code

PICTURED = ("none", "fixed 50 %", "budget")
_LAG_TOP = 4.0  # times the SLO: what runs away further is cut off, or nothing else could be seen

Scenarios = Annotated[
    list[str] | None,
    option(
        "--scenario",
        "steady, burst, slowdown, ramp, mixed, outage, sick-consumer; may be repeated, all when left out.",
        "NAME",
    ),
]
Policies = Annotated[
    list[str] | None,
    option(
        "--policy",
        (
            "none, fixed-25, fixed-50, fixed-75, on-off, aimd-on-lag, aimd-x0.5, aimd-x0.7, ledbat-like, budget; "
            "may be repeated."
        ),
        "NAME",
    ),
]
Seeds = Annotated[
    int, option("--seeds", "How many random worlds of each scenario.", "N", shows_default=True, min=1, max=1_000)
]
Picture = Annotated[
    Path | None,
    option("--png", "Draw one run: rate, produce p99 and time lag of each policy (needs the extra `plots`).", "FILE"),
]
Measured = Annotated[
    Path | None,
    option(
        "--response",
        "A broker as `make response` measured it, beside the formula; the one that comes with recoveryd, if there is one.",
        "FILE",
    ),
]
Processes = Annotated[
    int, option("--processes", "How many processes share the work.", "N", shows_default=True, min=1, max=64)
]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(simulate)


def simulate(
    scenario: Scenarios = None,
    policy: Policies = None,
    seeds: Seeds = 12,
    png: Picture = None,
    response: Measured = None,
    processes: Processes = 2,
    output: Output = Format.TABLE,
) -> int:
    """Compare throttling policies on a model of a broker. A whole run also judges the gate: exit code 1 when missed."""
    from recoveryd.simulation.policies import POLICIES  # noqa: PLC0415
    from recoveryd.simulation.scenarios import Scenario  # noqa: PLC0415
    from recoveryd.simulation.study import as_document, run_study  # noqa: PLC0415

    scenarios = tuple(Scenario(n) for n in _find("--scenario", scenario, [str(s) for s in Scenario]))
    policies = _find("--policy", policy, list(POLICIES))
    study = run_study(policies, scenarios, seeds, processes, _response(response))
    if png is not None:
        _draw(png, policies if policy else PICTURED, scenarios[0] if scenario else Scenario.MIXED, study.seeds[0])
    show(as_document(study), output, lambda: _tables(study), list(policies))
    if output.is_table and not study.checks:
        note("Not judged: the gate needs every policy, every scenario and at least 12 seeds.")
    return ExitCode.DONE if study.passed else ExitCode.FAILED


def _response(file: Path | None) -> "Response | None":
    from recoveryd.simulation.response import BadResponse, packaged_response, read_response  # noqa: PLC0415

    if file is None:
        return packaged_response()
    try:
        return read_response(file)
    except OSError as error:
        raise invalid(
            Code.INVALID_VALUE,
            f"--response {file} cannot be read: {error.strerror}.",
            "Check the path; `make response` writes one.",
        ) from None
    except BadResponse as problem:
        raise invalid(
            Code.INVALID_VALUE,
            f"--response {file}: {problem}.",
            "Take a file as `make response` wrote it, or measure again.",
        ) from None


def _find(flag: str, typed: Iterable[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Names as the model has them; spaces, signs and case do not matter."""
    plain = {_plain(name): name for name in known}
    found = []
    for name in typed or known:
        if _plain(name) not in plain:
            near = difflib.get_close_matches(_plain(name), plain, n=1)
            guess = f" Did you mean `{plain[near[0]]}`?" if near else ""
            raise invalid(Code.INVALID_VALUE, f"{flag} `{name}` is not known.{guess}", f"Known: {', '.join(known)}.")
        found.append(plain[_plain(name)])
    return tuple(dict.fromkeys(found))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _tables(study: "Study") -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415

    from recoveryd.simulation.report import (  # noqa: PLC0415
        SUMMARY_HEADER,
        check_rows,
        scenario_header,
        scenario_rows,
        summary_rows,
        text_table,
    )

    parts = [text_table(SUMMARY_HEADER, summary_rows(study.nominal)), ""]
    parts += ["time / oracle and violation by scenario"]
    parts += [text_table(scenario_header(study.nominal), scenario_rows(study.nominal))]
    if study.measured is not None:
        parts += ["", "on the measured broker", text_table(SUMMARY_HEADER, summary_rows(study.measured))]
    if study.scaled is not None:
        header = ("", "check", "found", "wanted")
        parts += ["", "capacity x5", text_table(SUMMARY_HEADER, summary_rows(study.scaled))]
        parts += ["", "baselines", text_table(header, check_rows(study.baselines))]
        parts += ["", "gate", text_table(header, check_rows(study.checks))]
    return [Text(part, no_wrap=True) for part in parts]


def _draw(file: Path, policies: Sequence[str], scenario: "Scenario", seed: int) -> None:
    from recoveryd.plots import Line, Panel, plot  # noqa: PLC0415
    from recoveryd.simulation.report import curve  # noqa: PLC0415

    curves = [curve(policy, scenario, seed) for policy in policies]
    longest_s = max(c.finished_s or len(c.rate) for c in curves)

    def lines(values: str) -> list[Line]:
        shown = [(_name(c), list(getattr(c, values))[:longest_s]) for c in curves]
        return [Line(name, range(len(found)), found) for name, found in shown]

    first = curves[0]
    panels = [
        Panel("Rate granted to the replay", "units/s", lines("rate")),
        Panel("Produce latency p99 of live traffic", "seconds", lines("latency_s"), first.slo_latency_s, is_log=True),
        Panel(
            "Time lag of the protected group",
            "seconds",
            lines("lag_s"),
            first.slo_lag_s,
            top=_LAG_TOP * first.slo_lag_s,
        ),
    ]
    plot(file, panels, f"Simulated: {scenario}, seed {seed}")


def _name(found: "Curve") -> str:
    ended = f"{found.finished_s / 60:.0f} min" if found.finished_s else "not finished"
    return f"{found.policy} ({ended})"
