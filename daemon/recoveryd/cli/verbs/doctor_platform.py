"""`recoveryctl doctor features`, `doctor platform` and `doctor isolation`: what to know before a platform is relied on
for recoveries.

All of them only look, and change nothing. They always exit with 0 when they could answer: a weak platform is no failed
check.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.units.facts import UnitFacts
    from recoveryd.units.model import Unit

from recoveryd.cli.failure import ExitCode, usage
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import show
from recoveryd.cli.send.connect import Connection, known_cluster
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.http_asking import UNANSWERED, ask
from recoveryd.cli.send.http_reader import check_url
from recoveryd.errors import RecoverydError

_HTTP_TIMEOUT_S = 5.0
_Cluster = Annotated[str, option("--cluster", "A name under `clusters` of the config.", "NAME")]
_SIGNAL_STYLES = {"strong": "green", "weak": "yellow", "unknown": "dim"}


def add_to(group: typer.Typer) -> None:
    group.command("features")(features)
    group.command("platform")(platform)
    group.command("isolation")(isolation)


@connected
def features(
    connection: Connection,
    cluster: _Cluster = "main",
    output: Output = Format.TABLE,
) -> int:
    """List what of Kafka's protocol the brokers of a cluster say they answer, what not, and what is done without it."""
    from recoveryd.adapters.kafka.platform_facts import read_versions  # noqa: PLC0415
    from recoveryd.units.features import judge_features  # noqa: PLC0415

    settings = connection.settings
    known_cluster(settings, cluster)
    rows: list[dict[str, object]] = [
        {
            "name": row.feature.name,
            "has": row.is_there,
            "requests": [request.name for request in row.feature.requests],
            "lacking": list(row.lacking),
            "without": row.feature.without,
        }
        for row in judge_features(read_versions(settings.access(cluster)))
    ]
    show(rows, output, lambda: [_feature_table(rows)], [str(row["name"]) for row in rows if not row["has"]])
    return ExitCode.DONE


def _feature_table(rows: "list[dict[str, object]]") -> "RenderableType":
    from rich.text import Text  # noqa: PLC0415

    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("FEATURE", "", "WHERE IT IS LACKING")
    for row in rows:
        has = bool(row["has"])
        table.add_row(
            str(row["name"]),
            Text("has" if has else "lacks", style="green" if has else "yellow"),
            Text(str(row["without"])),
        )
    return table


@connected
def platform(
    connection: Connection,
    cluster: _Cluster = "main",
    output: Output = Format.TABLE,
) -> int:
    """Judge a cluster by seven questions: strong, weak or unknown, each with what shows it.

    Compatibility, replay boundary, cost, elasticity, governance, migration risk and observability.
    """
    from recoveryd.adapters.kafka.platform_facts import read_platform  # noqa: PLC0415
    from recoveryd.units.platform import PlatformSeen, judge_platform  # noqa: PLC0415

    settings = connection.settings
    known_cluster(settings, cluster)
    found = read_platform(settings.librdkafka(cluster), settings.access(cluster))
    named = [unit for unit in settings.units().values() if unit.cluster == cluster]
    inputs = {topic for unit in named for topic in unit.inputs}
    seen = PlatformSeen(
        apis=found.apis,
        brokers=found.brokers,
        broker_configs=found.configs,
        client_rack=settings.librdkafka(cluster).get("client.rack"),
        units={unit.name: (unit, _facts(connection, unit)) for unit in named},
        topic_leaders={topic: len(ids) for topic, ids in found.leaders.items() if topic in inputs},
        watched=tuple(each.topic for each in settings.values.monitor.topics if each.cluster == cluster),
        daemon=metrics_shown(check_url(connection.daemon_url)) if connection.knows_daemon else None,
    )
    rows = [asdict(row) | {"signal": row.signal.value} for row in judge_platform(seen)]
    show(rows, output, lambda: [_table(rows)], [str(row["name"]) for row in rows if row["signal"] == "weak"])
    return ExitCode.DONE


def _facts(connection: Connection, unit: "Unit") -> "UnitFacts | None":
    from recoveryd.adapters.kafka.unit_facts import read_unit  # noqa: PLC0415

    settings = connection.settings
    properties, access = settings.librdkafka(unit.cluster), settings.access(unit.cluster)
    try:
        return read_unit(properties, unit, settings.units().values(), 0, access, with_readers=False)
    except RecoverydError:
        return None


def metrics_shown(url: str) -> str | None:
    """Whether a daemon shows metrics there."""
    page = f"{url.rstrip('/')}/metrics"
    try:
        found = ask(page, _HTTP_TIMEOUT_S)
    except UNANSWERED:
        return None
    if found.status != 200:
        return None
    count = sum(not line.startswith(b"#") for line in found.body.splitlines())
    return f"a daemon shows {count:,} series at {page}"


def _table(rows: "list[dict[str, object]]") -> "RenderableType":
    from rich.text import Text  # noqa: PLC0415

    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("QUESTION", "", "EVIDENCE")
    for row in rows:
        signal = str(row["signal"])
        table.add_row(
            str(row["name"]).replace("_", " "), Text(signal, style=_SIGNAL_STYLES[signal]), Text(str(row["evidence"]))
        )
    return table


def isolation(
    windows: Annotated[
        str, option("--recovery-windows", "Recovery windows of those who share a cluster: alike | different.", "WORD")
    ],
    budgets: Annotated[str, option("--failure-budgets", "Their failure budgets: alike | different.", "WORD")],
    volume: Annotated[
        float, option("--replay-volume", "What a replay takes, as a multiple of what the cluster can spare.", "NUMBER")
    ],
    sensitivity: Annotated[str, option("--sensitivity", "The data there: usual | sensitive.", "WORD")],
    ownership: Annotated[str, option("--ownership", "Teams that answer for it: one | several.", "WORD")],
    output: Output = Format.TABLE,
) -> int:
    """Advise one cluster for live traffic and recoveries, or one of their own, from five facts. Works offline."""
    from recoveryd.units.isolation import IsolationFacts, advise  # noqa: PLC0415

    if not 0 <= volume < float("inf"):
        raise usage(f"--replay-volume is {volume:g}.", "Give a number such as 0.4, or 3 for three times as much.")
    found = advise(
        IsolationFacts(
            windows_alike=_is("--recovery-windows", windows, "alike", "different"),
            budgets_alike=_is("--failure-budgets", budgets, "alike", "different"),
            replay_volume=volume,
            is_sensitive=_is("--sensitivity", sensitivity, "sensitive", "usual"),
            has_one_owner=_is("--ownership", ownership, "one", "several"),
        )
    )
    document = {"advice": found.advice.value, "reasons": list(found.reasons), "instead": found.instead}
    show(
        document,
        output,
        lambda: [found.advice.value, *(f"- {why}" for why in found.reasons), found.instead],
        [found.advice.value],
    )
    return ExitCode.DONE


def _is(flag: str, given: str, yes: str, no: str) -> bool:
    if given not in {yes, no}:
        raise usage(f"{flag} is {given}.", f"It is {yes} or {no}.")
    return given == yes
