"""`recoveryctl savepoint` and `restore-savepoint`: named cuts of applications, and units that begin with one."""

from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, Reason, argument, id_option, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.render.showing import public, show_all
from recoveryd.cli.render.tables import columns
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import NewId, PlanHash, PlanOnly, begin_workflow, roll_back
from recoveryd.cli.verbs.inspect import events_of
from recoveryd.cli.verbs.reprocess import OUTPUTS, parse_choices
from recoveryd.cli.verbs.unit import Name as UnitName
from recoveryd.cli.verbs.unit import find_unit
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused

if TYPE_CHECKING:
    from recoveryd.adapters.kafka.client import Properties
    from recoveryd.units.facts import UnitFacts
    from recoveryd.units.model import Unit
    from recoveryd.units.past_state import ChangelogLook, SavedMoment

_CONFIGS_S: Final = 15.0
_group = typer.Typer(help="Named cuts of applications: offsets and state of one moment.", no_args_is_help=True)
Name = Annotated[str, argument("NAME", "Name of the savepoint.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="savepoint", rich_help_panel="Start")
    app.command(name="restore-savepoint", rich_help_panel="Start")(restore_savepoint)


@_group.callback()
def _savepoint() -> None:
    """Named cuts of applications: offsets and state of one moment, to begin with again."""


@_group.command("create")
@connected
def create_savepoint(
    connection: Connection,
    name: Name,
    unit: Annotated[str, option("--unit", "A unit of the daemon's config.", "UNIT")],
    live: Annotated[
        bool, option("--live", "Take it while the application runs; exact only where that is exactly once.")
    ] = False,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Keep where an application stands: its offsets, and copies of its changelogs."""
    data: Document = {"reason": reason, "unit": unit, "name": name}
    data |= {"live": True} if live else {}
    return begin_workflow(
        connection, "savepoint", new_id or make_id(name), data, sending, plan_only=plan_only, plan_hash=plan_hash
    )


@_group.command("list")
@connected
def list_savepoints(connection: Connection, output: Output = Format.TABLE) -> int:
    """All savepoints, the newest first."""
    found = sorted(_all(connection), key=lambda document: str(document["cut"]["at"]), reverse=True)

    def table() -> list[Table]:
        rows = columns("NAME", "UNIT", "TAKEN", "EXACT", ">TOPICS", ">RECORDS AT MOST")
        for document in found:
            cut = document["cut"]
            exact = "yes" if cut["is_exact"] else "if stopped cleanly" if cut.get("is_exact_if_clean") else "no"
            count = str(_records(cut))
            rows.add_row(_name(document), cut["unit"], cut["at"], exact, str(len(cut["topics"])), count)
        return [rows]

    show([public(document) for document in found], output, table, [_name(document) for document in found])
    if not found and output.is_table:
        note("There is no savepoint yet; make one with `recoveryctl savepoint create`.")
    return ExitCode.DONE


@_group.command("show")
@connected
def show_savepoint(connection: Connection, name: Name, output: Output = Format.TABLE) -> int:
    """One savepoint: offsets, state, and how it was taken."""
    document = _find(connection, name)
    show_all(document, events_of(connection, document), output)
    return ExitCode.DONE


@_group.command("diff")
@connected
def diff_savepoints(
    connection: Connection,
    before: Annotated[str, argument("BEFORE", "Name of the older savepoint.")],
    after: Annotated[str, argument("AFTER", "Name of the newer savepoint.")],
    keys: Annotated[int, option("--keys", "How many keys of each kind are shown per store.", "N", min=0, max=1000)] = 3,
    output: Output = Format.TABLE,
) -> int:
    """Compare two savepoints: how far the inputs moved, and per store the keys that were added, changed and removed."""
    from recoveryd.adapters.kafka.cut_reading import diff_stores  # noqa: PLC0415
    from recoveryd.cli.render.cut_diffs import diff_document, diff_parts  # noqa: PLC0415
    from recoveryd.wire.nouns import NounForm  # noqa: PLC0415
    from recoveryd.workflows.model.cut import Cut  # noqa: PLC0415
    from recoveryd.workflows.model.cut_diff import moves  # noqa: PLC0415

    old, new = (NounForm(Cut).read(_find(connection, name)["cut"]) for name in (before, after))
    sides = [(cut, connection.settings.librdkafka(cut.cluster)) for cut in (old, new)]
    stores = list(diff_stores(sides[0], sides[1], keys))
    document = diff_document(before, after, moves(old, new), stores)
    show(document, output, lambda: diff_parts(document), [store.store for store in stores if not store.is_same])
    return ExitCode.DONE


@_group.command("delete")
@connected
def delete_savepoint(connection: Connection, name: Name, reason: Reason = None, *, sending: Staying) -> int:
    """Delete a savepoint and the topics that hold its state."""
    return roll_back(connection, str(_find(connection, name)["recovery"]), reason, sending)


@_group.command("reach")
@connected
def reach(
    connection: Connection,
    unit: UnitName,
    at: Annotated[str, option("--at", "The moment: a time with zone.", "TIME")],
    new_id: Annotated[
        str | None, id_option("Application id that gets the state; UNIT-then when left out.", name="--new-id")
    ] = None,
    output: Output = Format.TABLE,
) -> int:
    """Find out whether the state that a unit had at a past moment can be had again, and print how.

    From a savepoint, or from changelogs of which nothing is gone. Exits with 1 when only the inputs are left.
    """
    from recoveryd.adapters.kafka.unit_facts import read_unit  # noqa: PLC0415
    from recoveryd.kernel.times import TimeProblem, parse_time_ms  # noqa: PLC0415
    from recoveryd.units.past_state import PastState, judge_past_state  # noqa: PLC0415

    try:
        at_ms = parse_time_ms(at)
    except TimeProblem as found:
        raise usage(f"--at {at} {found}.", "Write a time with zone, such as 2026-11-20T18:00:00Z.") from None
    named, settings = find_unit(connection, unit), connection.settings
    properties, access = settings.librdkafka(named.cluster), settings.access(named.cluster)
    units = settings.units().values()
    facts = read_unit(properties, named, units, 0, access, with_readers=False, with_guarantee=False, for_plan=True)
    cuts = {_name(each): _saved(each["cut"]) for each in _all(connection) if each["unit"] == named.name}
    looks, configs = _look_at_changelogs(properties, named, facts, at_ms)
    answer = judge_past_state(named, at_ms, facts, looks, cuts, configs, new_id or f"{named.group}-then")
    if isinstance(answer, Refused):
        raise Failure(answer.code, answer.message, answer.hint)
    document = {"verdict": answer.verdict.value, "why": list(answer.why), "commands": list(answer.commands)}
    is_lost = answer.verdict is PastState.STATE_NOT_RECOVERABLE
    left = "What is left is to process the inputs up to then:" if is_lost else "How to have it:"
    shown = [answer.verdict.value.upper(), *(f"- {why}" for why in answer.why), left, *answer.commands]
    show(document, output, lambda: [Text(line) for line in shown], list(answer.commands))
    return ExitCode.FAILED if is_lost else ExitCode.DONE


@connected
def restore_savepoint(
    connection: Connection,
    name: Name,
    to_unit: Annotated[str, option("--to-unit", "The unit that begins with it.", "UNIT")],
    outputs: Annotated[list[str] | None, option("--outputs", OUTPUTS, "TOPIC=POLICY")] = None,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Let a unit begin with the state and the offsets of a savepoint, step by step."""
    data: Document = {"reason": reason, "savepoint": name, "to_unit": to_unit}
    data |= {"outputs": parse_choices(outputs, "--outputs")} if outputs else {}
    return begin_workflow(
        connection,
        "restore_savepoint",
        new_id or make_id(to_unit),
        data,
        sending,
        plan_only=plan_only,
        plan_hash=plan_hash,
    )


def _look_at_changelogs(
    properties: "Properties", unit: "Unit", facts: "UnitFacts", at_ms: int
) -> tuple[list["ChangelogLook"], dict[str, dict[str, str | None]]]:
    """What is left of each changelog, and the configs that a copy of it is to get: its own, and nothing of those with
    which the copy was made. None where it is not certain whose they are.
    """
    from recoveryd.adapters.kafka.client import make_admin  # noqa: PLC0415
    from recoveryd.adapters.kafka.past_state import look_at_changelogs  # noqa: PLC0415
    from recoveryd.adapters.kafka.topic_admin import read_own_configs  # noqa: PLC0415
    from recoveryd.recovery.kept_topics import AS_WRITTEN  # noqa: PLC0415
    from recoveryd.units.past_state import changelogs_of  # noqa: PLC0415

    if facts.internal.ambiguous:
        return [], {}
    looks = look_at_changelogs(properties, changelogs_of(unit, facts), at_ms)
    own = read_own_configs(make_admin(properties), dict.fromkeys(look.topic for look in looks), _CONFIGS_S)
    return looks, {topic: {**dict.fromkeys(AS_WRITTEN), **found} for topic, found in own.items()}


def _all(connection: Connection) -> list[Document]:
    return [
        {**document, "cut": {**document["cut"], **_exactness(document["cut"])}}
        for document in connection.backend.statuses().values()
        if document.get("workflow") == "savepoint" and document["state"] == "completed" and document.get("cut")
    ]


def _exactness(cut: Document) -> Document:
    """Whether it is of one moment, as this release says it also of a cut of an earlier one."""
    from recoveryd.wire.nouns import NounForm  # noqa: PLC0415
    from recoveryd.workflows.model.cut import Cut  # noqa: PLC0415

    found = NounForm(Cut).read(cut)
    return {"is_exact": found.is_exact, "is_exact_if_clean": found.is_exact_if_clean, "why": found.why}


def _saved(cut: Document) -> "SavedMoment":
    from recoveryd.kernel.times import parse_time_ms  # noqa: PLC0415
    from recoveryd.units.past_state import SavedMoment  # noqa: PLC0415

    return SavedMoment(parse_time_ms(cut["at"]), "" if cut["is_exact"] else str(cut["why"]))


def _find(connection: Connection, name: str) -> Document:
    document = next((document for document in _all(connection) if _name(document) == name), None)
    if document is None:
        raise Failure(Code.NO_SUCH_SAVEPOINT, f"There is no savepoint {name}.", otherwise=ExitCode.NOT_FOUND)
    return document


def _name(document: Document) -> str:
    return str(document["cut"]["name"])


def _records(cut: Document) -> int:
    return sum(stop - topic["starts"][p] for topic in cut["topics"] for p, stop in topic["stops"].items())
