"""A topic that is there where one was to be made: somebody else's client made it in the moment in which there was none,
as readers do where `auto.create.topics.enable` and `allow.auto.create.topics` let them. It has the partitions, replicas
and configs that the brokers give to any topic. It gets the configs that are wanted, and goes once more where it has
other partitions or replicas, but never with a record in it.
"""

import time
from collections.abc import Collection
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, read_log
from recoveryd.adapters.kafka.steps.try_time import TryTime
from recoveryd.adapters.kafka.topic_admin import (
    SETTLE_S,
    TopicShape,
    await_topic,
    change_configs,
    create,
    delete,
    describe,
    read_own_configs,
)
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import TopicForm

_TIMES_MOST: Final = 5
_QUIET_S: Final = 1.0  # who makes a topic because it writes there has written by then
_POLL_S: Final = 0.05


class SomebodyElseError(Exception):
    """A topic is not what the plan saw, or not what is wanted, and not ours to take away."""


def records_in(admin: AdminClient, shape: TopicShape) -> int:
    """At most so many records lie there."""
    return sum(log.records_most for log in read_log(admin, shape).values())


def unlike(admin: AdminClient, shape: TopicShape, form: TopicForm) -> str:
    """What it has in place of what is wanted; empty = it is as if it had been made of this form."""
    others = ", ".join(sorted(_lacking(admin, form)[0]))
    return "; ".join(each for each in (other_shape(shape, form), others and f"other configs ({others})") if each)


def other_shape(shape: TopicShape, form: TopicForm) -> str:
    """The same without its configs."""
    numbers = (
        ("partitions", shape.partitions, form.partitions),
        ("replicas", shape.replication_factor, form.replication_factor),
    )
    return ", ".join(f"{now} {what} in place of {wanted}" for what, now, wanted in numbers if now != wanted)


def await_another(admin: AdminClient, name: str, gone: Collection[str], limit_s: float) -> TopicShape:
    """As `await_topic`, but for those with these ids: a broker may not know yet that they went. Raises
    `ClusterProblem`.
    """
    give_up_s = time.monotonic() + limit_s
    while (shape := await_topic(admin, name, TIMEOUT_S, max(0.0, give_up_s - time.monotonic()))).topic_id in gone:
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{name} is still the one that was deleted after {limit_s:.0f} s")
        time.sleep(_POLL_S)
    return shape


def way_out(name: str, workflow: str) -> str:
    """What people can do about one that clients make again and again, or wrote to, once records of ours went."""
    return (
        f"stop the clients that make it or write there (readers do unless `allow.auto.create.topics` is false), delete {name}, "
        f"and `rollback` {workflow} makes it as it was"
    )


def mended(
    admin: AdminClient, workflow: str, form: TopicForm, shape: TopicShape, at: TryTime, gone: str, *, may_go: bool
) -> tuple[TopicShape, str]:
    """The one that is there, with what it lacked, or one of ours in its place; and what was done about it, empty where
    it was as one that an earlier try made. `may_go`: one with the id `gone` was taken away for it, and this one came
    since. Raises `SomebodyElseError`, `ClusterProblem`.
    """
    ids = {gone}
    for _ in range(_TIMES_MOST):
        other = other_shape(shape, form)
        if count := records_in(admin, shape):
            raise SomebodyElseError(_told_used(workflow, form.name, count, may_go=may_go))
        if not other and (told := _configured(admin, form, may_go=may_go)) is not None:
            return shape, told
        if not may_go:
            raise SomebodyElseError(
                f"{form.name} exists, and is not the empty topic of {form.partitions} partitions that is wanted ({other}): "
                "somebody else made it meanwhile; delete it, or choose another name"
            )
        ids.add(shape.topic_id)
        shape, is_ours = _replaced(admin, form, shape, ids, at)
        if is_ours:
            return shape, f"somebody else had made {form.name} meanwhile{other and f', with {other}'}: that went, empty"
    raise SomebodyElseError(
        f"{form.name} was taken away {_TIMES_MOST} times, and each time somebody else made it before it could be made anew, "
        f"now with {other_shape(shape, form) or 'other configs'}: {way_out(form.name, workflow)}"
    )


def _told_used(workflow: str, name: str, count: int, *, may_go: bool) -> str:
    told = f"somebody else made {name} meanwhile, and up to {count:,} records came to it, so it stays"
    return f"{told}: {way_out(name, workflow)}" if may_go else f"{told}; choose another name"


def _configured(admin: AdminClient, form: TopicForm, *, may_go: bool) -> str | None:
    """What was done that it has the configs of its own that are wanted; None = it has not, as they may not be changed.
    One that came since has no others then, and gets those in any case: a broker may still tell those of the one before.
    """
    lacking, more = _lacking(admin, form)
    changes: dict[str, str | None] = {**form.configs, **dict.fromkeys(more)} if may_go else {**lacking}
    if not changes:
        return ""
    try:
        change_configs(admin, {form.name: changes}, TIMEOUT_S)
    except ClusterProblem as refused:
        if may_go and refused.code is Code.NOT_AUTHORISED:
            return None
        raise
    return f"{form.name} was there already, empty, and was given its own configs"


def _lacking(admin: AdminClient, form: TopicForm) -> tuple[dict[str, str], frozenset[str]]:
    """Configs that are not set on the topic as they are wanted, and names of those that it has besides."""
    now = read_own_configs(admin, [form.name], TIMEOUT_S)[form.name]
    lacking = {name: value for name, value in form.configs.items() if now.get(name) != value}
    return lacking, frozenset(now.keys() - form.configs.keys())


def _replaced(
    admin: AdminClient, form: TopicForm, shape: TopicShape, ids: Collection[str], at: TryTime
) -> tuple[TopicShape, bool]:
    """What is there when it was taken away, and whether that is ours: made at once, since clients look for it several
    times a second. One that was written to, or that is another one by now, stays. Raises `ClusterProblem`.
    """
    time.sleep(at.left_s(_QUIET_S))
    now = describe(admin, [form.name], TIMEOUT_S)[form.name]
    if now is not None and (now.topic_id != shape.topic_id or records_in(admin, now)):
        return await_topic(admin, form.name, TIMEOUT_S, at.left_s(SETTLE_S)), False
    if at.left_s(_QUIET_S) <= 0:
        raise ClusterProblem(f"{form.name} was made by somebody else meanwhile, and the time of this try is over")
    delete(admin, form.name, TIMEOUT_S)
    is_ours = create(admin, form.name, form.partitions, form.replication_factor, form.configs, TIMEOUT_S)
    return await_another(admin, form.name, ids, at.left_s(SETTLE_S)), is_ours
