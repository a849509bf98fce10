"""`recoveryctl doctor`: everything a recovery needs, looked at in the order in which it fails, each bad line with its
next step.

Exit code 1 as soon as one thing fails; a warning does not. Nothing that others can see is written, except with
`--deep`, which sends one command for a recovery that does not exist and expects its refusal: the only honest proof that
the whole way works.
"""

import functools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.cli.verbs.doctor_checks import CheckResult

from recoveryd.cli.failure import ExitCode, usage
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.connect import Connection, known_cluster
from recoveryd.cli.send.connected import connected, is_typed
from recoveryd.cli.send.values import parse_duration_s
from recoveryd.cli.verbs import doctor_platform
from recoveryd.errors import RecoverydError

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True)
    group.callback()(_alone(doctor))
    doctor_platform.add_to(group)
    app.add_typer(group, name="doctor", rich_help_panel="Set up")


def _alone(verb: Callable[..., int | None]) -> Callable[..., int | None]:
    """The verb where no verb of its own follows."""

    @functools.wraps(verb)
    def unless_other(ctx: typer.Context, **given: object) -> int | None:
        if ctx.invoked_subcommand is None:
            return verb(ctx=ctx, **given)
        _refuse_unheard(ctx, ctx.invoked_subcommand, given)
        return None

    return unless_other


def _refuse_unheard(ctx: typer.Context, other: str, names: Collection[str]) -> None:
    """A verb has its own options only: one in front of it would be dropped without a word."""
    for param in ctx.command.params:
        if param.name in names and is_typed(ctx, param.name):
            flag = next(each for each in param.opts if each.startswith("--"))
            raise usage(
                f"{flag} stands before `{other}`, which does not see it.",
                f"Put it behind, where `{ctx.command_path} {other} --help` has it.",
            )


@connected
def doctor(
    connection: Connection,
    deep: Annotated[
        bool, option("--deep", "Also start executors of each profile, and send a command that must be refused.")
    ] = False,
    source: Annotated[str | None, option("--source", "Check the ACLs for reading it.", "[CLUSTER:]TOPIC")] = None,
    target: Annotated[str | None, option("--target", "Check the ACLs for writing it.", "[CLUSTER:]TOPIC")] = None,
    unit: Annotated[
        str | None, option("--unit", "Check the ACLs for each workflow on it, and its guarantee.", "UNIT")
    ] = None,
    timeout: Annotated[
        str | None,
        option(
            "--timeout",
            "How long each question may take; else 10s for a cluster, 30s for the page of the daemon and 1m for its answer.",
            "DURATION",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> int:
    """Check Java, Spark, its profiles and executors, brokers, ACLs, topics, clocks, the work folder and the daemon.
    What is not looked at has a line too, which says how.
    """
    from recoveryd.cli.verbs.doctor_checks import CheckPatience, CheckVerdict  # noqa: PLC0415  (help must not pay for it)
    from recoveryd.cli.verbs.doctor_machine import run_checks  # noqa: PLC0415  (help must not pay for it)

    patience = CheckPatience.of(None if timeout is None else parse_duration_s(timeout, "--timeout"))
    _check_place(connection, "--source", source)
    _check_place(connection, "--target", target)
    checks = list(run_checks(connection, patience, deep=deep, source=source, target=target))
    if unit is not None:
        from recoveryd.cli.verbs.doctor_units import check_unit  # noqa: PLC0415

        checks += check_unit(connection, unit, patience)
    else:
        from recoveryd.cli.verbs.doctor_checks import skipped  # noqa: PLC0415

        checks.append(skipped("unit", "none is named", "Name one with --unit UNIT to see what its workflows lack."))
    rows = [{"check": c.name, "verdict": c.verdict.value, "found": c.found, "next_step": c.next_step} for c in checks]
    show(rows, output, lambda: [_table(checks)], [c.name for c in checks if c.verdict is CheckVerdict.FAIL])
    bad = [c for c in checks if c.verdict is CheckVerdict.FAIL]
    doubtful = [c for c in checks if c.verdict is CheckVerdict.WARN]
    looked = [c for c in checks if c.verdict is not CheckVerdict.SKIPPED]
    warned = f"No check failed; {len(doubtful)} of {len(looked)} warn." if doubtful else "All is well."
    note(f"{len(bad)} of {len(looked)} checks failed." if bad else warned)
    return ExitCode.FAILED if bad else ExitCode.DONE


def _check_place(connection: Connection, flag: str, place: str | None) -> None:
    """Of a cluster that there is not, nothing would be checked."""
    if place is None:
        return
    cluster, _, topic = place.rpartition(":")
    if not topic:
        raise usage(f"{flag} `{place}` names no topic.", "Write it as [CLUSTER:]TOPIC.")
    try:
        settings = connection.settings
    except RecoverydError:
        return  # a line of the table says why
    if cluster:
        known_cluster(settings, cluster)


def _table(checks: "list[CheckResult]") -> "RenderableType":
    from rich.text import Text  # noqa: PLC0415

    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("CHECK", "", "FOUND")
    for check in checks:
        found = f"{check.found}\nnext: {check.next_step}" if check.next_step else check.found
        table.add_row(check.name, Text(check.verdict.value, style=_STYLES[check.verdict.value]), Text(found))
    return table
