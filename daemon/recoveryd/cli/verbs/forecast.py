"""`recoveryctl forecast`: how long a replay would take and whether it is sensible, from rates and a window alone. No
recovery, no broker.

Options to a `Case` and an answer to a table; the rules are those that judge every plan.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.cli.status import Document
    from recoveryd.cli.verbs.forecast_case import ForecastCase

from recoveryd.cli.failure import ExitCode, invalid, usage
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import show
from recoveryd.kernel.catalogue import Code

_PANEL = "Sizes and prices"


Window = Annotated[str, option("--window", "How far back the replay begins, like 4d.", "DURATION")]
ReplayRate = Annotated[
    str, option("--replay-rate", "Sustained rate of the replay, like 2M/s records or 250MB/s.", "RATE")
]
LiveRate = Annotated[
    str, option("--live-rate", "Rate at which records arrive in the source, now and in the window, like 10k/s.", "RATE")
]
Moving = Annotated[
    bool, option("--moving/--pinned", "Follow the live head, or stop at the end that the log has at the start.")
]
Contended = Annotated[bool, option("--contended", "The replay rate was measured read-only: take a fifth off.")]
Spread = Annotated[
    float, option("--spread", "Both rates may be off by this percent.", "PERCENT", shows_default=True, min=0, max=99)
]
Startup = Annotated[str | None, option("--startup", "Time until the first record is copied.", "DURATION")]
Deadline = Annotated[str | None, option("--deadline", "It must be done within this time.", "DURATION")]
Retention = Annotated[str | None, option("--retention", "How long the source keeps its records.", "DURATION")]
Age = Annotated[str | None, option("--age", "Age of the oldest record to copy; the window when left out.", "DURATION")]
Margin = Annotated[
    str | None,
    option(
        "--margin", "Records between the log start and the first one to copy, of a log that is full by size.", "RECORDS"
    ),
]
Backlog = Annotated[
    str | None, option("--backlog", "Records to copy; live rate times window when left out.", "RECORDS")
]
Lanes = Annotated[int | None, option("--lanes", "How many lanes reach the replay rate.", "N", min=1)]
RecordBytes = Annotated[str | None, option("--record-bytes", "Mean size of a record.", "SIZE", _PANEL)]
Replication = Annotated[int, option("--replication", "Replicas of the copy; 1 when left out.", "N", _PANEL, min=1)]
Brokers = Annotated[int | None, option("--brokers", "How many brokers share the copy.", "N", _PANEL, min=1)]
PricesFile = Annotated[Path | None, option("--prices", "A config with a `prices:` section.", "FILE", _PANEL)]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(forecast)


def forecast(
    window: Window,
    replay_rate: ReplayRate,
    live_rate: LiveRate,
    moving: Moving = False,
    contended: Contended = False,
    spread: Spread = 0,
    startup: Startup = None,
    deadline: Deadline = None,
    retention: Retention = None,
    age: Age = None,
    margin: Margin = None,
    backlog: Backlog = None,
    lanes: Lanes = None,
    record_bytes: RecordBytes = None,
    replication: Replication = 1,
    brokers: Brokers = None,
    prices: PricesFile = None,
    output: Output = Format.TABLE,
) -> int:
    """How long a replay takes, whether it catches up, what a deadline needs, whether retention wins. Works offline.

    Exits with 1 when it is impractical.
    """
    from recoveryd.cli.verbs.forecast_case import ForecastCase, answer, notes  # noqa: PLC0415
    from recoveryd.forecast.wire import FORECAST  # noqa: PLC0415

    size = None if record_bytes is None else _size(record_bytes)
    window_s, live = _seconds(window, "--window"), _rate(live_rate, "--live-rate", size)
    case = ForecastCase(
        window_s=window_s,
        backlog=_amount_or(backlog, "--backlog", live * window_s) or 0.0,
        replay=_rate(replay_rate, "--replay-rate", size),
        live=live,
        is_moving=moving,
        is_contended=contended,
        record_bytes=size,
        spread=spread / 100,
        startup_s=_seconds_or(startup, "--startup") or 0.0,
        deadline_s=_seconds_or(deadline, "--deadline"),
        retention_s=_seconds_or(retention, "--retention"),
        age_s=_seconds_or(age, "--age"),
        margin=_amount_or(margin, "--margin", None),
        lanes=lanes,
        replication_factor=replication,
        brokers=brokers,
    )
    case = case if prices is None else _with_prices(case, prices)
    view = answer(case)
    data, told = FORECAST.write(view), notes(case, view)
    show({**data, "notes": told}, output, lambda: _table(data, told), [view.outlook])
    return ExitCode.FAILED if any(each.startswith("impractical") for each in view.outlooks) else ExitCode.DONE


def _amount_or(text: str | None, flag: str, default: float | None) -> float | None:
    from recoveryd.cli.send.rates import parse_amount  # noqa: PLC0415

    return default if text is None else parse_amount(text, flag)


def _rate(text: str, flag: str, record_bytes: float | None) -> float:
    from recoveryd.cli.send.rates import parse_rate  # noqa: PLC0415

    return parse_rate(text, flag).records_per_s(record_bytes, flag)


def _size(text: str) -> float:
    from recoveryd.cli.send.values import parse_size  # noqa: PLC0415

    return float(parse_size(text, "--record-bytes"))


def _seconds(text: str, flag: str) -> float:
    from recoveryd.cli.send.values import parse_duration_s  # noqa: PLC0415

    seconds = parse_duration_s(text, flag)
    if seconds <= 0:
        raise invalid(Code.INVALID_VALUE, f"{flag} must be more than 0.", "Write it like 90s, 10m or 4d.")
    return seconds


def _seconds_or(text: str | None, flag: str) -> float | None:
    return None if text is None else _seconds(text, flag)


def _with_prices(case: "ForecastCase", file: Path) -> "ForecastCase":
    """The prices of a config; the address of its brokers is not needed and not asked for."""
    from dataclasses import replace  # noqa: PLC0415

    from recoveryd.settings import load  # noqa: PLC0415

    if case.record_bytes is None:
        raise usage("Prices need the size of a record.", "Give --record-bytes too.")
    return replace(case, pricing=load(file, "unset:9092").values.prices.pricing())


def _table(data: "Document", told: list[str]) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415

    from recoveryd.cli.render.forecast import forecast_facts  # noqa: PLC0415

    return [forecast_facts(data), *([Text("\nNotes", style="bold")] if told else []), *(Text(f"- {n}") for n in told)]
