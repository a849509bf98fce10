"""What becomes of the state of an application when its offsets are set: it is part of the command, since nobody can see
it in the offsets.
"""

from collections.abc import Collection

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.internal_topics import InternalTopics, is_declared, may_be_of
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.spec import ResetSpec, StateChoice

REPROCESSED = frozenset({UnitKind.STREAMS, UnitKind.GROUP})  # kinds that `reprocess` can begin anew


def refuse_state(spec: ResetSpec, unit: Unit | None) -> Refused | None:
    """Of `reset`: a choice that is missing, or cannot be carried out. Offsets that stay where they are leave state
    right.
    """
    if unit is None or not unit.keeps_state:
        if spec.state is not StateChoice.CLEAN:
            return None
        message = f"state: {unit.name if unit else spec.group} has none in the config that could be cleaned"
        return Refused(Code.INVALID_VALUE, message, "Leave state out, or name a unit that is stateful.")
    if spec.state is StateChoice.CLEAN and unit.kind is UnitKind.STREAMS:
        message = f"state: the changelogs of {unit.name} would bring its state back"
        return Refused(Code.INVALID_VALUE, message, "Use `reprocess`, which takes its internal topics as well.")
    if spec.state is StateChoice.KEEP and unit.kind is UnitKind.FLINK:
        message = f"state: a job of Flink that keeps its state goes on with the offsets in it, whatever is set for {unit.name}"
        return Refused(Code.INVALID_VALUE, message, "Say `state: clean`: it starts without its state.")
    if spec.state is not None or isinstance(spec.to, Current):
        return None
    message = f"state: nothing is said about the state of {unit.name}, which does not go back with its offsets"
    return Refused(Code.MISSING_FIELD, message, _hint(unit))


def refuse_unclear(unit: Unit, internal: InternalTopics, otherwise: str, known: Collection[str] = ()) -> Refused | None:
    """Of an application that begins with another state: a topic that may hold some of the one before, and would bring
    it back. `otherwise`: what would become of it. `known`: topics that are made anew, whoever's they are. One whose
    topology is known reads back nothing that this does not name.
    """
    if not unit.keeps_state or unit.topology is not None:
        return None
    for name, reason in internal.ambiguous:
        if name not in known and not is_declared(reason) and may_be_of(unit.group, name, unit.inputs):
            message = f"{name} may hold state of {unit.name}, and {otherwise}: {reason}"
            hint = f"Give {unit.name} its `topology`, or list all its `internal_topics`, {name} too if it is its own; else make a"
            return Refused(Code.AMBIGUOUS_TOPICS, message, f"{hint} unit of the application whose it is.")
    return None


def _hint(unit: Unit) -> str:
    ways = ["Say `state: keep` if it is right as it is"]
    ways += [] if unit.kind is UnitKind.STREAMS else ["say `state: clean` if somebody will empty it"]
    ways += ["use `reprocess` to begin with empty state"] if unit.kind in REPROCESSED else []
    return ", or ".join(ways) + "."


def told_of_state(spec: ResetSpec, unit: Unit | None) -> tuple[str, ...]:
    """For whoever approves the plan."""
    if unit is None or not unit.keeps_state or spec.state is not StateChoice.KEEP:
        return ()
    return (f"the state of {unit.name} stays as it is: what is read again counts in it twice, what is left out never",)


def clean_text(unit: Unit) -> str:
    where = f"<state.dir>/{unit.group}" if unit.kind is UnitKind.STREAMS else "its local state"
    how = ", or let it call KafkaStreams#cleanUp() before it starts" if unit.kind is UnitKind.STREAMS else ""
    return f"delete {where} on every machine where {unit.name} ran{how}"
