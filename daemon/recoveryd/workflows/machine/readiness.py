"""Whether a group is near enough to the ends of what it reads, and has been for long enough.

The lag of each partition is told from the looks of the collector at the group and the log ends, as for watches: one
that is not fully known is never small, and between two commits it counts as it was at the last one, as long as the next
is not late. The time counts from the first of the looks in a row that were all within the
limit. It begins again with each look that was not, after a gap, for a new leader, and when what was planned is another
thing now: another config of a unit, another topic, more partitions. So the time always belongs to what will be carried
out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from recoveryd.kernel.times import format_time_ms
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import Reader, with_samples, without_unwatched
from recoveryd.live.lag.commits import lag_at_commit_s
from recoveryd.live.lag.evaluate import evaluate_partitions
from recoveryd.live.lag.verdicts import LagVerdict, PartitionLag
from recoveryd.live.lag.window import LagParams, Window
from recoveryd.live.params import LiveParams
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import AwaitReady
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.matter import matter_of
from recoveryd.workflows.model.near import Near, Readiness
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep

# In the evidence of a step that waits until a group is near.
NEAR_SINCE = "near_since"
NEAR_LONGEST = "near_longest_s"  # for how long it was so, of the times that ended; none did if it is left out
_GAP_PERIODS = 3
_MAY_BE_NEAR = frozenset({LagVerdict.OK, LagVerdict.IDLE, LagVerdict.CATCHING_UP, LagVerdict.FALLING_BEHIND})


def readers_in_play(workflows: Workflows) -> tuple[Reader, ...]:
    """The readers that the collector must sample now for workflows, each once."""
    return tuple(dict.fromkeys(reader for action in _awaited(workflows) for reader in _readers(action)))


def _awaited(workflows: Workflows) -> Iterator[AwaitReady]:
    for workflow in workflows.live.values():
        step = workflow.step
        if step is not None and step.began_ms is not None and isinstance(step.action, AwaitReady):
            yield step.action


def _is_awaited(workflows: Workflows, reader: Reader) -> bool:
    """Whether it is in play. Asked with each look at a group, of whom watches wait for as well."""
    place = (reader.cluster, reader.group)
    return any((a.cluster, a.group) == place and reader.topic in a.topics for a in _awaited(workflows))


def _readers(action: AwaitReady) -> Iterator[Reader]:
    for topic in action.topics:
        yield Reader(action.cluster, topic, action.group)


def on_reader_sampled(draft: WorkflowDraft, event: ReaderSampled) -> None:
    """One look at a group on a topic is kept; it is judged when its step is asked for again."""
    if not _is_awaited(draft.workflows, event.reader):
        return
    known = draft.workflows.readiness
    params = draft.params.live.lag_of(event.reader)
    book = with_samples(known.book, event.reader, event.samples, draft.now_ms, params, {event.reader})
    found = next((sample.topic_id for _, sample in event.samples if sample.topic_id), "")
    topics = {**known.topics, event.reader: (found, tuple(sorted(event.planned)))}
    draft.workflows = replace(draft.workflows, readiness=replace(known, book=book, topics=topics))


def forget_idle(draft: WorkflowDraft) -> None:
    """What nobody waits for any more."""
    known = draft.workflows.readiness
    if not known.topics and not known.near:
        return
    watched = frozenset(readers_in_play(draft.workflows))
    topics = {reader: found for reader, found in known.topics.items() if reader in watched}
    near = {name: each for name, each in known.near.items() if name in draft.workflows.live}
    if topics.keys() == known.topics.keys() and near.keys() == known.near.keys():
        return
    kept = Readiness(without_unwatched(known.book, watched), topics, near)
    draft.workflows = replace(draft.workflows, readiness=kept)


def look_at_readiness(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    action = step.action
    assert isinstance(action, AwaitReady)
    known = draft.workflows.readiness
    far, lags = _look(known, action, draft.now_ms, draft.params.live)
    revision = _revision(draft, workflow, action, known)
    before = known.near.get(workflow.id)
    near = None if far else _with_look(before, revision, draft.now_ms, draft.params.live.lag)
    others = {name: each for name, each in known.near.items() if name != workflow.id}
    kept = others if near is None else {**others, workflow.id: near}
    draft.workflows = replace(draft.workflows, readiness=replace(known, near=kept))
    left = _left(lags)
    evidence: dict[str, object] = {
        "revision": revision,
        NEAR_SINCE: None if near is None else format_time_ms(near.since_ms),
    }
    if longest_s := _longest_s(step, before, near):
        evidence[NEAR_LONGEST] = longest_s
    if near is None:
        why = f"{action.group} is not near enough: {far}"
        return _told(workflow, step, Outcome.NOT_YET, why, evidence, left)
    seconds = (draft.now_ms - near.since_ms) // 1_000
    most_s = max((lag.time_lag_s or 0.0 for lag in lags), default=0.0)
    limits = f"within {action.lag_ms / 1000:g} s"
    if draft.now_ms - near.since_ms < action.hold_ms:
        why = f"{action.group} is {limits}, and has to stay so for {action.hold_ms / 1000:g} s"
        return _told(workflow, step, Outcome.NOT_YET, why, evidence, left)
    why = f"{action.group} was {limits} of the ends of {', '.join(action.topics)} for {seconds} s"
    evidence |= {"held_s": seconds, "lag_s": round(most_s, 3), "partitions": len(lags), "left": left}
    return _told(workflow, step, Outcome.DONE, why, evidence, left)


def _longest_s(step: WorkflowStep, before: Near | None, near: Near | None) -> int:
    """With the time that ended now, if one did."""
    longest_s = near_longest_s(step.evidence)
    if before is None or (near is not None and near.since_ms == before.since_ms):
        return longest_s
    return max(longest_s, 1, (before.seen_ms - before.since_ms) // 1_000)


def near_longest_s(evidence: Mapping[str, object]) -> int:
    """Of the times for which it was near, those that ended; 0 = none did."""
    found = evidence.get(NEAR_LONGEST)
    return found if isinstance(found, int) else 0


def _look(known: Readiness, action: AwaitReady, now_ms: int, live: LiveParams) -> tuple[str, list[PartitionLag]]:
    """Why it is not within the limit now (empty = it is), and the lag of each partition."""
    lags: list[PartitionLag] = []
    far = ""
    for reader in _readers(action):
        _, planned = known.topics.get(reader, ("", ()))
        if not planned:
            return f"{reader.topic} was not looked at yet", []
        windows, params = known.book.readers.get(reader, {}), live.lag_of(reader)
        commits = any(window.position is not None for window in windows.values())
        for found in evaluate_partitions(windows, planned, now_ms, params):
            window = windows.get(found.partition, Window())
            seconds = lag_at_commit_s(window, found.time_lag_s, params)
            lag = found._replace(time_lag_s=seconds)
            if commits and _holds_nothing(window, now_ms, params):
                lag = found.holding_nothing()
            lags.append(lag)
            far = far or _too_far(f"{reader.topic} {found.partition}", lag, window, action.lag_ms)
    return far, lags


def _left(lags: Sequence[PartitionLag]) -> int | None:
    """What is left of all partitions; None unless it is known of each, since a part of it would look like less."""
    known = [lag.offset_lag for lag in lags if lag.offset_lag is not None]
    return sum(known) if lags and len(known) == len(lags) else None


def _too_far(place: str, lag: PartitionLag, window: Window, most_ms: int) -> str:
    if window.is_active is False:
        return "it has no members"
    if lag.verdict not in _MAY_BE_NEAR or lag.coverage < 1.0 or lag.time_lag_s is None:
        return f"{place}: {lag.why}"
    if lag.time_lag_s * 1_000 > most_ms:
        return f"{place} is {lag.time_lag_s:.0f} s behind"
    return ""


def _holds_nothing(window: Window, now_ms: int, params: LagParams) -> bool:
    """Nothing was ever written there, or retention took all of it: there is nothing to commit."""
    if window.position is not None or window.mark is not None or not window.ends:
        return False
    return window.ends[-1] == window.log_start and now_ms - window.ends_ms[-1] <= 2 * params.period_ms


def _with_look(before: Near | None, revision: str, now_ms: int, params: LagParams) -> Near:
    is_gap = before is None or now_ms - before.seen_ms > _GAP_PERIODS * params.period_ms
    if before is None or is_gap or before.revision != revision:
        return Near(revision, now_ms, now_ms)
    return replace(before, seen_ms=now_ms)


def _revision(draft: WorkflowDraft, workflow: Workflow, action: AwaitReady, known: Readiness) -> str:
    """Of everything that the time belongs to."""
    units = {name: matter_of(draft.params.units.get(name)) for name in action.units}
    topics = {reader.topic: known.topics.get(reader) for reader in _readers(action)}
    plan = "" if workflow.plan is None else workflow.plan.hash
    return hash_of({"plan": plan, "units": units, "topics": topics, "ready": (action.lag_ms, action.hold_ms)})


def _told(
    workflow: Workflow, step: WorkflowStep, outcome: Outcome, why: str, evidence: Mapping[str, object], left: int | None
) -> StepReported:
    return StepReported(workflow.id, step.name, step.tries, outcome, why, evidence=evidence, left=left)
