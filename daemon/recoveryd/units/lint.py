"""What makes a unit hard to recover, found while nothing is broken: one function per rule, in the order of the page
that `recoveryctl unit lint` prints.
"""

from collections.abc import Callable, Iterator
from typing import Final

from recoveryd.units.facts import UnitFacts
from recoveryd.units.findings import Grade, UnitFinding
from recoveryd.units.internal_topics import changelog_of, has_index, is_changelog
from recoveryd.units.model import Behaviour, Unit, UnitKind

_NAMED_MOST: Final = 5
Rule = Callable[[Unit, UnitFacts], Iterator[UnitFinding]]


def lint(unit: Unit, facts: UnitFacts) -> tuple[UnitFinding, ...]:
    """Every finding; empty when there is nothing to say."""
    return tuple(finding for rule in _RULES for finding in rule(unit, facts))


def is_stateful(unit: Unit, facts: UnitFacts) -> bool | None:
    """What the config says, else the topology, else whether there are changelogs; None = nobody can tell."""
    if unit.stateful is not None:
        return unit.stateful
    if unit.kind is UnitKind.STREAMS:
        if unit.topology is not None:
            return bool(unit.topology.stores)
        if facts.group is not None and facts.group.parts:
            return any(part.changelogs for part in facts.group.parts)
        return True if any(map(is_changelog, facts.internal.certain)) else None
    return None


def _missing_topics(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    for place, names in (("input", unit.inputs), ("intermediate", unit.intermediate), ("output", tuple(unit.outputs))):
        lost = tuple(name for name in names if name not in facts.topics)
        if lost:
            yield UnitFinding(
                f"{place}_missing",
                Grade.FAIL,
                f"{place} topics do not exist: {_listed(lost)}",
                "correct the names in the config; nothing is done for a unit of which a topic is missing",
                lost,
            )


def _unread_by_topology(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    if unit.topology is None:
        yield from _unread_by_group(unit, facts)
        return
    named = {*unit.inputs, *unit.intermediate}
    unnamed = tuple(sorted(unit.topology.read - unit.topology.through - named))
    if unnamed:
        message = f"the topology reads {_listed(unnamed)}, which the config does not name as input"
        yield UnitFinding("topology_reads_more", Grade.FAIL, message, "add them to inputs", unnamed)
    unread = tuple(sorted(name for name in unit.inputs if name not in unit.topology.read))
    if unread and not any(node.pattern for part in unit.topology.parts for node in part.nodes):
        message = f"the topology does not read {_listed(unread)}"
        yield UnitFinding("topology_reads_less", Grade.WARN, message, "is the text that of this version?", unread)


def _unread_by_group(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    """The same by what a group of the `streams` protocol told its broker."""
    read = facts.group.sources if facts.group is not None else frozenset()
    if not read:
        return
    unnamed = tuple(sorted(read - {*unit.inputs, *unit.intermediate}))
    if unnamed:
        message = f"by what the broker knows it reads {_listed(unnamed)}, which the config does not name as input"
        yield UnitFinding("topology_reads_more", Grade.FAIL, message, "add them to inputs", unnamed)
    unread = tuple(sorted(name for name in unit.inputs if name not in read))
    if unread:
        message = f"by what the broker knows it does not read {_listed(unread)}"
        yield UnitFinding("topology_reads_less", Grade.WARN, message, "do the inputs fit this version?", unread)


def _changelogs(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    """A store without a changelog lies only on the disks of instances."""
    if unit.topology is None:
        return
    lost = tuple(
        store
        for store in sorted(unit.topology.stores)
        if changelog_of(unit.group, store) not in facts.topics and not unit.is_table_of_input(store)
    )
    if lost:
        message = f"no changelog exists for the stores {_listed(lost)}"
        hint = "start the application once, or switch logging of the store on; without it a savepoint cannot hold them"
        yield UnitFinding("changelog_missing", Grade.WARN, message, hint)


def _ids_that_contain_it(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    if facts.containing_ids:
        message = f"{_listed(facts.containing_ids)} begins with {unit.group}-: tools that go by prefix damage both"
        yield UnitFinding("id_is_prefix", Grade.WARN, message, "choose ids of which none begins with another")


def _no_savepoint(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    if is_stateful(unit, facts) and unit.retention_objective_ms is None:
        message = "it has state, and nothing says how far back its inputs must reach to build it again"
        yield UnitFinding("no_retention_objective", Grade.WARN, message, "set retention_objective")


def _generated_names(_unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    """One more node in front of them renames them all, so that the next version of the application finds no state."""
    generated = tuple(name for name in facts.internal.certain if has_index(name))
    if generated:
        message = f"{len(generated)} internal topics have names with an index, which the next version may change"
        yield UnitFinding(
            "generated_names", Grade.WARN, message, "name stores, joins and repartitions in the code", generated
        )


def _ambiguous(_unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    if facts.internal.ambiguous:
        names = tuple(name for name, _ in facts.internal.ambiguous)
        why = facts.internal.ambiguous[0][1]
        message = f"whose {_listed(names)} is, is not certain: {why}"
        hint = "give the topology, or list internal_topics; until then they are left alone"
        yield UnitFinding("ambiguous_topics", Grade.WARN, message, hint, names)


def _undeclared_outputs(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    undeclared = tuple(name for name, output in unit.outputs.items() if output.behaviour is None)
    if undeclared:
        message = f"nothing says what writing twice does on {_listed(undeclared)}"
        hint = "set behaviour: idempotent, transactional or append_only"
        yield UnitFinding("output_undeclared", Grade.WARN, message, hint, undeclared)
    appended = tuple(name for name, output in unit.outputs.items() if output.behaviour is Behaviour.APPEND_ONLY)
    read = tuple(name for name in appended if facts.readers.get(name))
    if read:
        message = f"{_listed(read)} is append only and has readers: what is processed again reaches them twice"
        yield UnitFinding("append_only_output", Grade.WARN, message, "plan a new topic or a staged one", read)


def _no_owner(unit: Unit, _facts: UnitFacts) -> Iterator[UnitFinding]:
    if unit.owner is None or not unit.approvers:
        what = "owner" if unit.owner is None else "approvers"
        yield UnitFinding("no_owner", Grade.WARN, f"it has no {what}", f"set {what}: somebody has to be asked")


def _retention(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    objective = unit.retention_objective_ms
    if objective is None:
        return
    short = tuple(
        name
        for name in unit.inputs
        if name in facts.topics and (kept := facts.topics[name].retention_ms) is not None and kept < objective
    )
    if short:
        message = f"{_listed(short)} is kept shorter than the objective of {objective / 3_600_000:g} h"
        hint = "raise retention.ms, or take a savepoint or a backup as the source"
        yield UnitFinding("retention_short", Grade.FAIL, message, hint, short)


def _partition_counts(unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    """Topics that one part of the topology reads together share its tasks, one per partition."""
    if unit.topology is None:
        return
    for part in unit.topology.parts:
        counts = {name: facts.topics[name].partitions for name in sorted(part.read) if name in facts.topics}
        if len(set(counts.values())) > 1 and any(node.stores for node in part.nodes):
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            message = f"sub-topology {part.number} reads topics of different partition counts: {told}"
            yield UnitFinding(
                "not_copartitioned", Grade.WARN, message, "a join of them needs equal counts", tuple(counts)
            )


def _untold(_unit: Unit, facts: UnitFacts) -> Iterator[UnitFinding]:
    """What the cluster did not tell, so that the other rules could not judge it."""
    for problem in facts.problems:
        yield UnitFinding("not_told", Grade.WARN, problem, "grant Describe on these groups, or look again")


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")


_RULES: Final[tuple[Rule, ...]] = (
    _missing_topics,
    _unread_by_topology,
    _changelogs,
    _ids_that_contain_it,
    _no_savepoint,
    _generated_names,
    _ambiguous,
    _undeclared_outputs,
    _no_owner,
    _retention,
    _partition_counts,
    _untold,
)
