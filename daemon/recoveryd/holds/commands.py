"""Commands about holds: `hold`, `release` and `stop`. All are answered at once.

A hold belongs to the source of its command. `release` with the id of a hold ends it, whoever sent it; `release` with
topics alone lets go what the sender holds, so that nobody frees by accident what somebody else still needs held.
"""

from collections.abc import Iterable

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.ending import end, let_go
from recoveryd.holds.held import say_held
from recoveryd.holds.known import Holds
from recoveryd.holds.model import Hold
from recoveryd.holds.params import HoldParams
from recoveryd.holds.spec import HoldSpec, Release, StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.refusals import id_in_use, internal_topic, not_in_this_state, refuse_cluster, too_many
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import CommandRef, State, StopReason

ACTIVE_MOST = 200


def on_hold(draft: HoldDraft, event: CommandReceived, command: StartHold) -> None:
    """Hold the topics from now on, or refuse it. Others may hold them too: they are free when all have released."""
    meta, spec = command.meta, command.spec
    known = draft.holds.get(meta.subject)
    if known is not None:
        draft.refuse(event, id_in_use("hold", known.id, known.state.value))
        return
    refusal = refuse_hold(spec, draft.holds, draft.params)
    if refusal is not None:
        draft.refuse(event, refusal)
        return
    topics = ", ".join(spec.topics)
    hold = Hold(
        id=meta.subject,
        state=State.RUNNING,
        why=f"{topics} held by {meta.who}",
        version=1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        cluster=spec.cluster,
        topics=spec.topics,
        reads=spec.reads,
        expires_ms=spec.expires_ms,
    )
    others = list(_others(draft.holds, spec.cluster, spec.topics))
    draft.put_hold(hold)
    draft.answer(event, "accepted", "; ".join([f"{hold.id} holds {topics}", *others]))
    told = {"why": meta.reason, "cluster": spec.cluster, "topics": list(spec.topics), "reads": spec.reads}
    draft.notice("hold_started", hold.id, told, meta.id)
    if spec.expires_ms is not None:
        draft.effect(WakeAt(spec.expires_ms))


def refuse_hold(spec: HoldSpec, holds: Holds, params: HoldParams) -> Refused | None:
    """Why the topics may not be held, or None. A topic that does not exist may be: nobody creates it meanwhile."""
    unknown = refuse_cluster(spec.cluster, params.clusters)
    if unknown is not None:
        return unknown
    own = next((topic for topic in spec.topics if topic in params.own_topics), None)
    if own is not None:
        return internal_topic(own)
    if len(holds.live) >= ACTIVE_MOST:
        return too_many(Code.TOO_MANY_HOLDS, "holds", len(holds.live), ACTIVE_MOST)
    return None


def on_release(draft: HoldDraft, event: CommandReceived, command: Release) -> None:
    """Let go a hold by its id, or all that the sender holds of the topics."""
    hold = draft.holds.get(command.meta.subject)
    if hold is not None:
        _release_one(draft, event, command, hold)
    elif command.topics is None:
        message = f"there is no hold {command.meta.subject}, and no topic is named"
        draft.answer(event, "rejected", message, Code.NO_SUCH_RECOVERY.value)
    else:
        _release_topics(draft, event, command, command.topics)


def _release_one(draft: HoldDraft, event: CommandReceived, command: Release, hold: Hold) -> None:
    if hold.is_terminal:
        draft.answer(event, "accepted", f"{hold.id} is over already: {hold.why}")
        return
    wanted = hold.topics if command.topics is None else command.topics
    strange = next((t for t in wanted if t not in hold.topics and t not in hold.released), None)
    if strange is not None:
        message = f"{hold.id} does not hold {strange}, but {', '.join(hold.topics)}"
        draft.answer(event, "rejected", message, Code.NOT_HELD.value)
        return
    topics = [topic for topic in hold.topics if topic in wanted]
    if topics:
        let_go(draft, hold, topics, command.meta.who)
    _say_released(draft, event, hold.cluster, topics or wanted)


def _release_topics(draft: HoldDraft, event: CommandReceived, command: Release, topics: tuple[str, ...]) -> None:
    """Nothing is let go unless the sender holds each of the topics."""
    cluster, sender = command.cluster, command.meta.source
    for topic in topics:
        held = draft.holds.held.get((cluster, topic), ())
        if not held:
            message = f"nobody holds {topic} on the cluster {cluster}"
            draft.answer(event, "rejected", message, Code.NOT_HELD.value)
            return
        if all(by.owner != sender for by in held):
            hint = f"`recoveryctl release --id {held[0].hold} --reason TEXT` ends it all the same."
            draft.answer(event, "rejected", say_held(topic, held[0]), Code.NOT_THE_HOLDER.value, hint)
            return
    own = [h for h in draft.holds.live.values() if h.owner == sender and h.cluster == cluster]
    for hold in own:
        if any(topic in topics for topic in hold.topics):
            let_go(draft, hold, topics, command.meta.who)
    _say_released(draft, event, cluster, topics)


def _say_released(draft: HoldDraft, event: CommandReceived, cluster: str, topics: Iterable[str]) -> None:
    topics = tuple(topics)
    still = _others(draft.holds, cluster, topics)
    draft.answer(event, "accepted", "; ".join([f"{', '.join(topics)} released", *(f"but {one}" for one in still)]))


def _others(holds: Holds, cluster: str, topics: Iterable[str]) -> Iterable[str]:
    """A sentence for each hold on one of these topics, each hold once."""
    told = set()
    for topic in topics:
        for by in holds.held.get((cluster, topic), ()):
            if by.hold not in told:
                told.add(by.hold)
                yield say_held(topic, by)


def stop_hold(draft: HoldDraft, event: CommandReceived, command: StopCommand) -> None:
    """End the hold, which was perhaps placed by mistake."""
    hold = draft.holds.get(command.meta.subject)
    assert hold is not None  # the kernel has checked that the subject is a hold
    if hold.is_terminal:
        draft.refuse(event, not_in_this_state(command.verb, hold.id, hold.state.value))
        return
    draft.answer(event, "accepted", f"{hold.id} ends, and holds nothing any more")
    end(draft, hold, State.STOPPED, StopReason.OPERATOR, f"stopped by {command.meta.who}")
