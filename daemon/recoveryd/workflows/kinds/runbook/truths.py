"""Three truths of an application: how far it committed its inputs, how far its state goes, and how far its sink. To
start it again is safe only where they describe the same point.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.units.facts import UnitFacts
from recoveryd.units.internal_topics import is_changelog
from recoveryd.units.lint import is_stateful
from recoveryd.units.model import Behaviour, Unit, UnitKind
from recoveryd.workflows.model.spec import Marks, RunbookSpec


class TruthVerdict(StrEnum):
    """`sink_ahead`: what is read again is written twice. `sink_behind`: what was not written is not read again.
    `state_stale`: the state is of another point than the offsets. `unknown` never counts as aligned.
    """

    ALIGNED = "ALIGNED"
    SINK_AHEAD = "SINK_AHEAD"
    SINK_BEHIND = "SINK_BEHIND"
    STATE_STALE = "STATE_STALE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class TruthRow:
    """One partition of an input; each is the next offset that is not in it, None = nobody knows."""

    topic: str
    partition: int
    committed: int
    state: int | None
    sink: int | None

    @property
    def known(self) -> tuple[int, ...]:
        return tuple(at for at in (self.committed, self.state, self.sink) if at is not None)

    @property
    def is_apart(self) -> bool:
        return len(set(self.known)) > 1


@dataclass(frozen=True, slots=True)
class Alignment:
    """`ranges` [start, stop) are where the truths lie apart, by topic and partition."""

    verdict: TruthVerdict
    told: str
    rows: tuple[TruthRow, ...] = ()

    @property
    def ranges(self) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for row in self.rows:
            if row.is_apart:
                found.setdefault(row.topic, {})[row.partition] = (min(row.known), max(row.known))
        return found


def align(unit: Unit, facts: UnitFacts, spec: RunbookSpec) -> Alignment:
    rows = tuple(_rows(unit, facts, spec))
    told = _basis(unit, facts, spec)
    stale = [row for row in rows if row.state is not None and row.state != row.committed]
    behind = [row for row in rows if row.sink is not None and row.sink < row.committed]
    ahead = [row for row in rows if row.sink is not None and row.sink > row.committed]
    if stale:
        apart = sum(abs((row.state or 0) - row.committed) for row in stale)
        first = stale[0]
        how = "behind" if (first.state or 0) < first.committed else "ahead of"
        message = f"the state is {how} the offsets, {apart:,} offsets apart in {len(stale)} partitions"
        return Alignment(TruthVerdict.STATE_STALE, f"{message}; {told}", rows)
    if behind:
        count = sum(row.committed - (row.sink or 0) for row in behind)
        message = f"the sink lacks {count:,} offsets that were committed, in {len(behind)} partitions"
        return Alignment(TruthVerdict.SINK_BEHIND, f"{message}; {told}", rows)
    if ahead:
        count = sum((row.sink or 0) - row.committed for row in ahead)
        message = f"the sink has {count:,} offsets that will be read again, in {len(ahead)} partitions"
        return Alignment(TruthVerdict.SINK_AHEAD, f"{message}; {told}", rows)
    missing = _missing(unit, facts, rows)
    if missing:
        return Alignment(TruthVerdict.UNKNOWN, f"not known: {' and '.join(missing)}; {told}", rows)
    return Alignment(TruthVerdict.ALIGNED, f"offsets, state and sink describe the same point; {told}", rows)


def is_together(unit: Unit, facts: UnitFacts) -> bool:
    """Whether it commits what it writes and keeps together with its offsets, so that they cannot lie apart."""
    if facts.is_exactly_once is not None:
        return facts.is_exactly_once
    behaviours = {output.behaviour for output in unit.outputs.values()}
    return unit.kind is UnitKind.STREAMS and behaviours == {Behaviour.TRANSACTIONAL}


def changelogs_emptied(facts: UnitFacts) -> tuple[str, ...]:
    """Changelogs of which every record was deleted: no state can be built from them."""
    named = (name for name in facts.internal.certain if is_changelog(name) and name in facts.topics)
    return tuple(
        name
        for name in named
        if any(ends.high_watermark for ends in facts.topics[name].ends.values())
        and not any(ends.records_most for ends in facts.topics[name].ends.values())
    )


def _rows(unit: Unit, facts: UnitFacts, spec: RunbookSpec) -> Iterator[TruthRow]:
    committed = facts.group.committed if facts.group is not None else {}
    together = is_together(unit, facts)
    is_lost = bool(changelogs_emptied(facts))
    for name in unit.positioned_inputs:
        if name not in facts.topics:
            continue
        for partition, ends in sorted(facts.topics[name].ends.items()):
            entry = committed.get(name, {}).get(partition)
            at = ends.log_start if entry is None else entry.offset
            state = _mark(spec.state, name, partition)
            if state is None and is_lost:
                state = ends.log_start
            sink = _mark(spec.sink, name, partition)
            yield TruthRow(name, partition, at, _or(state, at, together), _or(sink, at, together))


def _or(marked: int | None, committed: int, together: bool) -> int | None:
    return committed if marked is None and together else marked


def _mark(marks: Marks, topic: str, partition: int) -> int | None:
    return marks.get(topic, {}).get(partition)


def _missing(unit: Unit, facts: UnitFacts, rows: Iterable[TruthRow]) -> list[str]:
    found = list(rows)
    missing = []
    if is_stateful(unit, facts) is not False and any(row.state is None for row in found):
        missing.append("which point its state is of")
    if unit.outputs and any(row.sink is None for row in found):
        missing.append("how far its sink goes")
    return missing


def _basis(unit: Unit, facts: UnitFacts, spec: RunbookSpec) -> str:
    parts = []
    if lost := changelogs_emptied(facts):
        parts.append(f"every record of {', '.join(lost)} was deleted")
    if is_together(unit, facts):
        parts.append(f"{unit.name} commits offsets, state and output together")
    if spec.sink:
        parts.append("the sink's marker was given with the command")
    if spec.state:
        parts.append(f"the state's was given, of {spec.checkpoint or 'a checkpoint'}")
    return "; ".join(parts) or "the cluster knows only the committed offsets"
