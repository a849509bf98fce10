"""What becomes of the outputs of an application that begins again, and of other topics that are made again beside them:
which choices a command has to name, how those topics look before and after, and the steps that make them. What its
internal topics and its offsets become is for each kind to say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.units.model import Behaviour, Unit
from recoveryd.workflows.machine.leases import lease_keys
from recoveryd.workflows.model.actions import CreateTopics, RecreateTopics, TopicForm
from recoveryd.workflows.model.facts import Found, TopicFound
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, WithOutputs
from recoveryd.workflows.model.step_names import CREATE, RECREATE
from recoveryd.workflows.model.workflow import Change, RowKey, TopicUndo, UndoState, WorkflowStep


def outputs_left_out(outputs: Mapping[str, OutputChoice], unit: Unit) -> Refused | None:
    left = sorted(set(unit.outputs) - set(outputs))
    if left:
        message = f"outputs: nothing is said about {left[0]}, which {unit.name} writes"
        return Refused(Code.MISSING_FIELD, message, 'Say recreate, keep, append or {"new": name} for each output.')
    strange = sorted(set(outputs) - set(unit.outputs))
    if strange:
        hint = nearest_name(strange[0], frozenset(unit.outputs)) if unit.outputs else f"{unit.name} has none"
        return Refused(Code.INVALID_VALUE, f"outputs: {strange[0]} is not one of {unit.name}", hint)
    return undeclared(unit)


def undeclared(unit: Unit) -> Refused | None:
    """Of an application with state, what writing twice does has to be known before it writes again."""
    name = next((name for name, output in unit.outputs.items() if output.behaviour is None), None)
    if name is None or not unit.keeps_state:
        return None
    message = f"outputs: nobody said what it does to {name} when {unit.name}, which has state, writes a record twice"
    return Refused(
        Code.MISSING_FIELD, message, "Declare its behaviour in the config: idempotent, transactional or append_only."
    )


def new_names(spec: WithOutputs) -> list[str]:
    return [choice.name for choice in spec.outputs.values() if choice.name is not None]


Forms = Mapping[str, Sequence[tuple[str | None, TopicForm]]]


def forms_of(spec: WithOutputs, found: Found, intermediate: Iterable[str] = ()) -> Forms:
    """By step: the id that a topic has now, and its form. `intermediate`: those that are made again."""
    recreated = [name for name, choice in spec.outputs.items() if choice.policy is OutputPolicy.RECREATE]
    recreated += intermediate
    again = [(topic.id, topic.form) for name in recreated if (topic := found.topics[name]) is not None]
    new = [
        (None, replace(topic.form, name=choice.name))
        for name, choice in spec.outputs.items()
        if choice.name is not None and (topic := found.topics[name]) is not None
    ]
    return {RECREATE: again, CREATE: new}


def theirs(cluster: str, found: Found, forms: Forms) -> Iterator[TopicUndo]:
    """Topics that are there before they are to be made: they stay somebody else's, whatever is heard of the step that
    finds them.
    """
    for _, form in forms[CREATE]:
        there = found.topics[form.name]
        if there is not None:
            yield TopicUndo(form.name, there.id, state=UndoState.KEPT, cluster=cluster)


def kept_ids(ids: Mapping[str, str], *made: Forms) -> dict[str, str]:
    """Those of topics that are not made again."""
    again = {form.name for forms in made for each in forms.values() for _, form in each}
    return {topic: topic_id for topic, topic_id in ids.items() if topic not in again}


def form_leases(spec: WithOutputs, found: Found, intermediate: Iterable[str] = ()) -> frozenset[RowKey]:
    """Configs of topics that are made again, or like which others are made: one that another workflow has changed for
    its own time only would be made to last.
    """
    named = [n for n, choice in spec.outputs.items() if choice.policy in {OutputPolicy.RECREATE, OutputPolicy.NEW}]
    known = (topic.form for name in (*named, *intermediate) if (topic := found.topics[name]) is not None)
    return frozenset().union(*(lease_keys(spec.cluster, form, form.configs) for form in known))


def topic_changes(forms: Forms, internal: Mapping[str, str]) -> Iterator[Change]:
    for name, topic_id in internal.items():
        yield Change("topic", name, None, topic_id, None)
    for known_id, form in (*forms[RECREATE], *forms[CREATE]):
        yield Change("topic", form.name, None, known_id, f"empty, {form.partitions} partitions")


def output_steps(spec: WithOutputs, forms: Forms) -> Iterator[WorkflowStep]:
    cluster = spec.cluster
    if forms[RECREATE]:
        ids = {form.name: topic_id or "" for topic_id, form in forms[RECREATE]}
        again = tuple(form for _, form in forms[RECREATE])
        yield WorkflowStep(RECREATE, RecreateTopics(cluster, again, ids, spec.group))
    if forms[CREATE]:
        yield WorkflowStep(CREATE, CreateTopics(cluster, tuple(form for _, form in forms[CREATE])))


def output_problem(spec: WithOutputs, unit: Unit, name: str, found: Found) -> Refused | None:
    choice = spec.outputs[name]
    behaviour = unit.outputs[name].behaviour
    if choice.policy is OutputPolicy.KEEP and behaviour is not Behaviour.IDEMPOTENT:
        said = "nobody said how it is written" if behaviour is None else f"it is {behaviour.value}"
        message = f"{name} cannot be kept: {said}, so a second run would leave results of both there"
        return Refused(Code.INVALID_VALUE, message, "Say recreate, append or new, or declare it idempotent.")
    return None if choice.name is None else _new_output_problem(unit, name, choice.name, found)


def _new_output_problem(unit: Unit, old_name: str, new_name: str, found: Found) -> Refused | None:
    old, there = found.topics[old_name], found.topics[new_name]
    hint = "Choose another name."
    if old is None:
        message = f"{old_name} does not exist, so that {new_name} cannot be made like it"
        return Refused(Code.TARGET_TOPIC_MISSING, message, f"Make {new_name} yourself and correct the unit.")
    if new_name in {*unit.own_topics, *found.units[unit.name].internal.certain}:
        return Refused(Code.INVALID_VALUE, f"{new_name} is a topic of {unit.name} already", hint)
    if there is not None and there.records_most:
        message = f"{new_name} has up to {there.records_most:,} records already"
        return Refused(Code.TARGET_NOT_EMPTY, message, hint)
    if there is not None and there.form.partitions != old.form.partitions:
        message = f"{new_name} has {there.form.partitions} partitions, and {old_name} has {old.form.partitions}"
        return Refused(Code.TARGET_PARTITIONS, message, hint)
    return None


def findings_of_outputs(spec: WithOutputs, unit: Unit, found: Found) -> Iterator[str]:
    facts = found.units[unit.name]
    for name, choice in spec.outputs.items():
        topic = found.topics[name]
        if topic is None:
            yield f"{name} does not exist; it is left to {unit.name} to make it"
        elif choice.policy is OutputPolicy.APPEND:
            count = found.counts.get(name)
            told = f"up to {topic.records_most:,}" if count is None else f"{count:,}"
            yield f"{told} records of earlier runs stay in {name} beside the new ones"
        elif choice.policy is OutputPolicy.RECREATE:
            for reader in facts.readers.get(name, ()):
                yield f"{reader} reads {name}: its offsets there go with the topic, and it begins where its auto.offset.reset says"
        elif choice.policy is OutputPolicy.NEW:
            for reader in facts.readers.get(name, ()):
                yield f"{reader} reads {name}, not {choice.name}: tell its owner"
            yield from _told_unlike(topic.form, found.topics.get(choice.name or ""))
        kept_ms = None if (known := facts.topics.get(name)) is None else known.retention_ms
        if kept_ms is not None and choice.policy is not OutputPolicy.KEEP:
            yield f"{choice.name or name} keeps records for {kept_ms / 3_600_000:,.0f} h by their own time: results of older input go soon after they are written"


def _told_unlike(old: TopicForm, there: TopicFound | None) -> Iterator[str]:
    """Of one that is there before it is to be made like `old`: it stays as whoever made it wanted it."""
    if there is None:
        return
    new, told = there.form, []
    if new.replication_factor != old.replication_factor:
        told.append(f"{new.replication_factor} replicas and not {old.replication_factor}")
    for config in sorted(new.configs.keys() | old.configs.keys()):
        now, wanted = (form.configs.get(config, "as the brokers have it") for form in (new, old))
        if now != wanted:
            told.append(f"{config} {now} and not {wanted}")
    if told:
        yield f"{new.name} is there already and stays as it is, unlike {old.name}: {', '.join(told)}"
