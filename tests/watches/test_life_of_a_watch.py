"""From the command to the end of a watch: answers, states, events, partitions that stay done over restarts, deadlines,
and the webhook.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Notice
from recoveryd.kernel.events import ControlRead, ControlUnread
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import Reader
from recoveryd.watches.commands import ACTIVE_MOST
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.effects import CallWebhook
from recoveryd.watches.ending import CALL_AGAIN_MS
from recoveryd.watches.events import WebhookEnded
from recoveryd.watches.known import readers_in_play
from recoveryd.watches.model import DeliveryState
from recoveryd.watches.spec import CallHook, UntilOffsets, UntilTime
from tests.builders.core import NOW_MS
from tests.builders.watch_world import CAUGHT_UP, Topic, WatchWorld

OFFSETS = replace(CAUGHT_UP, until=UntilOffsets({"flights": {0: 80, 1: 50}}))
CALLING = replace(CAUGHT_UP, then=CallHook("stop-it"))
LONG_ENOUGH = 14
HOUR_MS = 3_600_000


def calling_world() -> WatchWorld:
    """A watch whose condition has held and whose webhook is being called."""
    world = WatchWorld()
    world.start(CALLING)
    world.catch_up()
    world.looks(LONG_ENOUGH)
    assert [type(call) for call in world.calls] == [CallWebhook]
    return world


def last_of(world: WatchWorld, kind: str) -> Notice:
    return next(notice for notice in reversed(world.notices) if notice.type == kind)


def test_a_watch_begins_at_once_and_tells_the_collector_whom_to_look_at() -> None:
    world = WatchWorld()
    watch = world.start()
    assert (world.answers[-1].kind, watch.state) == ("accepted", State.RUNNING)
    assert readers_in_play(world.state.of(WATCHES)) == (Reader("main", "flights", "reports"),)
    assert world.told() == ["watch_started"]


def test_a_fulfilled_watch_without_webhook_is_over_and_shows_its_evidence() -> None:
    world = WatchWorld()
    world.start()
    world.catch_up()
    world.looks(LONG_ENOUGH)
    watch = world.watch()
    assert (watch.state, watch.error_code, world.calls) == (State.COMPLETED, None, [])
    assert watch.stop is not None
    assert (watch.stop.reason, watch.stop.mode) == (StopReason.ZERO_LAG, "caught_up")
    assert watch.stop.evidence["partitions"] == [
        {"topic": "flights", "partition": 0, "position": 100, "end": 100, "lag_records": 0},
        {"topic": "flights", "partition": 1, "position": 50, "end": 50, "lag_records": 0},
    ]
    assert world.told() == ["watch_started", "watch_fulfilled", "watch_completed"]
    assert last_of(world, "watch_completed").data["evidence"] == watch.stop.evidence
    assert readers_in_play(world.state.of(WATCHES)) == ()
    assert world.state.of(WATCHES).book.readers == {}


def test_offsets_are_latched_one_by_one_and_kept_over_a_restart() -> None:
    world = WatchWorld({"flights": Topic({0: 90, 1: 10}, {0: 100, 1: 50})})
    world.start(OFFSETS)
    world.look()
    assert world.watch().reached == {"flights": frozenset({0})}
    world.restart()
    world.topics["flights"].committed = {0: 5, 1: 50}  # the group was reset: what was reached stays reached
    world.look()
    watch = world.watch()
    assert watch.state is State.COMPLETED
    assert watch.stop is not None
    assert (watch.stop.reason, watch.stop.mode) == (StopReason.ZERO_LAG, "bounded")


@pytest.mark.parametrize(
    "topic",
    [
        Topic({}, {0: 100, 1: 50}),
        Topic({0: 80, 1: 49}, {0: 100, 1: 50}),
        Topic({0: 200, 1: 50}, {0: 100, 1: 50}),
        Topic({0: 80, 1: 50}, {0: 100, 1: 50}, hidden={0}),
    ],
    ids=["never committed", "one short", "past the end", "no answer for one"],
)
def test_offsets_that_were_not_truly_seen_are_not_reached(topic: Topic) -> None:
    world = WatchWorld({"flights": topic})
    world.start(OFFSETS)
    world.looks(10)
    assert world.watch().state is State.RUNNING


def test_one_true_look_at_the_wanted_offsets_is_enough() -> None:
    world = WatchWorld({"flights": Topic({0: 80, 1: 50}, {0: 100, 1: 50}, is_active=False)})
    world.start(OFFSETS)
    world.look()
    assert world.watch().state is State.COMPLETED


def test_looks_of_an_earlier_daemon_do_not_count() -> None:
    world = WatchWorld()
    world.start()
    world.catch_up()
    world.looks(LONG_ENOUGH - 4)
    assert world.watch().state is State.RUNNING
    world.restart()
    world.looks(LONG_ENOUGH - 4)
    assert world.watch().state is State.RUNNING
    world.looks(4)
    assert world.watch().state is State.COMPLETED


def test_a_time_fulfils_the_watch_whatever_the_group_does() -> None:
    world = WatchWorld()
    world.start(replace(CAUGHT_UP, until=UntilTime(NOW_MS + 20_000)))
    assert readers_in_play(world.state.of(WATCHES)) == ()
    world.looks(3)
    assert world.watch().state is State.RUNNING
    world.look()
    assert (world.watch().state, world.watch().stop.reason) == (State.COMPLETED, StopReason.DEADLINE)  # type: ignore[union-attr]


def test_a_time_comes_for_a_watch_whose_topic_does_not_exist_too() -> None:
    world = WatchWorld()
    world.start(replace(CAUGHT_UP, until=UntilTime(NOW_MS + 40_000)))
    world.missing = {"flights"}
    world.looks(6)
    assert world.watch().state is State.RUNNING
    world.looks(3)
    assert world.watch().state is State.COMPLETED


def test_a_deadline_ends_it_unfulfilled_and_never_calls_the_webhook() -> None:
    world = WatchWorld()
    world.start(replace(CALLING, deadline_ms=NOW_MS + 20_000))
    world.looks(4)
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.WATCH_UNFULFILLED.value)
    assert watch.stop is not None
    assert watch.stop.reason is StopReason.DEADLINE
    assert "flights partition" in watch.why
    assert world.told() == ["watch_started", "watch_failed"]
    assert world.calls == []


def test_a_deadline_that_passed_while_no_daemon_ran_is_kept() -> None:
    world = WatchWorld()
    world.start(replace(CAUGHT_UP, deadline_ms=NOW_MS + 20_000))
    world.catch_up()
    world.now_ms += HOUR_MS
    world.restart()
    assert world.watch().error_code == Code.WATCH_UNFULFILLED.value


@pytest.mark.parametrize("then", [CALLING.then, CAUGHT_UP.then])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_what_came_while_no_daemon_ran_is_read_before_its_time_fulfils_it(is_stopped: bool, then: object) -> None:
    world = WatchWorld()
    world.start(replace(CAUGHT_UP, then=then), until=UntilTime(NOW_MS + HOUR_MS))
    world.now_ms += 2 * HOUR_MS
    world.restart(unread=True)
    world.looks(3)
    assert (world.watch().state, world.calls, world.told()) == (State.RUNNING, [], ["watch_started"])
    if is_stopped:
        world.send("stop")
    world.feed(ControlRead())
    fulfilled = State.RUNNING if then == CALLING.then else State.COMPLETED
    assert world.watch().state is (State.STOPPED if is_stopped else fulfilled)
    assert len(world.calls) == int(not is_stopped and then == CALLING.then)


def test_nor_does_its_deadline_a_missing_topic_or_a_look_end_it_before() -> None:
    world = WatchWorld()
    world.start(deadline_ms=NOW_MS + HOUR_MS)
    world.start(OFFSETS, subject="w2")
    world.catch_up()
    world.now_ms += 2 * HOUR_MS
    world.restart(unread=True)
    world.looks(LONG_ENOUGH)
    world.missing = {"flights"}
    world.looks(4)
    assert {world.watch(name).state for name in ("w1", "w2")} == {State.RUNNING}
    world.send("stop", "w2")
    world.feed(ControlRead())
    assert (world.watch().state, world.watch("w2").state) == (State.FAILED, State.STOPPED)


def test_a_leader_that_stood_still_reads_what_came_before_it_calls_again() -> None:
    world = calling_world()
    world.feed(ControlUnread())
    world.now_ms += CALL_AGAIN_MS
    world.looks(2)
    assert len(world.calls) == 1
    world.feed(ControlRead())
    assert len(world.calls) == 2


def test_a_topic_created_anew_ends_the_watch() -> None:
    world = WatchWorld({"flights": Topic({0: 10}, {0: 100})})
    world.start()
    world.looks(2)
    world.restart()
    world.topics["flights"] = Topic({0: 3}, {0: 3}, topic_id="id-2")
    world.look()
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.TOPIC_RECREATED.value)
    assert watch.stop is not None
    assert watch.stop.evidence == {"topic": "flights", "was": "id-1", "found": "id-2"}


def test_a_topic_that_does_not_exist_ends_the_watch_after_three_looks() -> None:
    world = WatchWorld()
    world.start()
    world.missing = {"flights"}
    world.looks(2)
    world.missing = set()
    world.look()
    world.missing = {"flights"}
    world.looks(2)
    assert world.watch().state is State.RUNNING
    world.look()
    assert (world.watch().state, world.watch().error_code) == (State.FAILED, Code.SOURCE_TOPIC_MISSING.value)


def test_a_partition_that_does_not_exist_ends_the_watch() -> None:
    world = WatchWorld()
    world.start(replace(CAUGHT_UP, until=UntilOffsets({"flights": {0: 1, 7: 1}})))
    world.looks(4)
    assert world.watch().state is State.RUNNING, "one that was added just now is not known everywhere"
    world.look()
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.SOURCE_PARTITION_MISSING.value)
    assert watch.why == "the topic flights has no partition 7"


def test_the_webhook_is_called_once_the_intent_is_journaled_and_then_it_is_over() -> None:
    world = calling_world()
    watch = world.watch()
    assert watch.state is State.RUNNING
    assert watch.delivery is not None
    assert (watch.delivery.state, watch.delivery.id) == (DeliveryState.PENDING, world.calls[0].delivery)
    assert world.calls[0].webhook == "stop-it"
    assert world.calls[0].body["group"] == "reports"
    world.webhook_ends(status=204)
    watch = world.watch()
    assert watch.state is State.COMPLETED
    assert watch.delivery is not None
    assert (watch.delivery.state, watch.delivery.status, watch.delivery.attempts) == (DeliveryState.DELIVERED, 204, 1)
    assert world.told() == ["watch_started", "watch_fulfilled", "webhook_delivered", "watch_completed"]


def test_a_webhook_that_was_not_reached_fails_the_watch_but_keeps_that_its_condition_held() -> None:
    world = calling_world()
    world.webhook_ends(status=None)
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.WEBHOOK_FAILED.value)
    assert watch.stop is not None
    assert watch.stop.reason is StopReason.ZERO_LAG
    assert world.told() == ["watch_started", "watch_fulfilled", "webhook_failed", "watch_failed"]


def test_a_restart_calls_again_with_the_same_delivery_and_the_same_words() -> None:
    world = calling_world()
    world.restart()
    world.restart(3)
    assert len(world.calls) == 3
    assert world.calls[0] == world.calls[1] == world.calls[2]
    world.webhook_ends()
    world.restart(4)
    assert (len(world.calls), world.watch().state) == (3, State.COMPLETED)


def test_an_outcome_that_got_lost_leads_to_another_call() -> None:
    world = calling_world()
    world.looks(3)
    assert len(world.calls) == 1
    world.look(after_ms=CALL_AGAIN_MS)
    assert world.calls == [world.calls[0]] * 2


def test_an_outcome_nobody_waits_for_changes_nothing() -> None:
    world = calling_world()
    world.webhook_ends()
    before = world.state
    decision = world.feed(WebhookEnded("w1", False, 500, 6, "500"))
    assert (decision.needs_journal, world.state) == (False, before)
    assert not world.feed(WebhookEnded("unknown", True, 200, 1, "200")).needs_journal


def test_stop_ends_a_watch_and_also_one_that_calls_its_webhook() -> None:
    world = calling_world()
    world.start(CAUGHT_UP, "w2")
    assert [world.send("stop", name).kind for name in ("w1", "w2")] == ["accepted", "accepted"]
    assert [world.watch(name).state for name in ("w1", "w2")] == [State.STOPPED, State.STOPPED]
    assert world.watch("w1").delivery.state is DeliveryState.FAILED  # type: ignore[union-attr]
    assert world.watch("w2").stop.reason is StopReason.OPERATOR  # type: ignore[union-attr]
    world.webhook_ends()
    assert world.watch("w1").state is State.STOPPED
    answer = world.send("stop", "w1")
    assert (answer.kind, answer.code) == ("rejected", Code.NOT_IN_THIS_STATE.value)


@pytest.mark.parametrize("verb", ["pause", "resume", "throttle", "approve", "reject"])
def test_what_steers_lanes_is_refused_for_a_watch(verb: str) -> None:
    world = WatchWorld()
    world.start()
    answer = world.send(verb, "w1", max_bytes_per_s=5.0, plan_hash="h")
    assert (answer.kind, answer.code) == ("rejected", Code.NOT_FOR_THIS_KIND.value)
    assert world.watch().version == 1


@pytest.mark.parametrize(
    ("changes", "code", "hint"),
    [
        ({"cluster": "mian"}, Code.UNKNOWN_CLUSTER, "did you mean 'main'?"),
        ({"then": CallHook("stopit")}, Code.UNKNOWN_WEBHOOK, "did you mean 'stop-it'?"),
        ({"then": CallHook("zzz")}, Code.UNKNOWN_WEBHOOK, "the config has: stop-it"),
        ({"topics": ("recovery.status.v1",)}, Code.INTERNAL_TOPIC, Code.INTERNAL_TOPIC.next_step),
    ],
)
def test_a_watch_of_what_the_config_does_not_have_is_refused(changes: dict[str, object], code: Code, hint: str) -> None:
    world = WatchWorld()
    answer = world.send("watch", "w1", spec=replace(CAUGHT_UP, **changes))  # type: ignore[arg-type]
    assert (answer.kind, answer.code, answer.hint) == ("rejected", code.value, hint)
    assert world.state.of(WATCHES).get("w1") is None


def test_watches_and_recoveries_share_one_space_of_ids() -> None:
    world = WatchWorld()
    world.start()
    assert world.send("watch", "w1", spec=CAUGHT_UP).code == Code.ID_IN_USE.value
    assert world.send("replay", "w1").code == Code.ID_IN_USE.value
    world.send("replay", "r1")
    assert world.send("watch", "r1", spec=CAUGHT_UP).code == Code.ID_IN_USE.value


def test_the_number_of_active_watches_is_bounded() -> None:
    world = WatchWorld()
    for number in range(ACTIVE_MOST):
        world.start(subject=f"w{number}")
    assert world.send("watch", "one-more", spec=CAUGHT_UP).code == Code.TOO_MANY_WATCHES.value
    world.send("stop", "w0")
    assert world.send("watch", "one-more", spec=CAUGHT_UP).kind == "accepted"


def test_looks_at_groups_nobody_watches_change_nothing() -> None:
    world = WatchWorld()
    world.start()
    before = world.state.of(WATCHES)
    world.feed(world.sampled("flights", group="others"))
    world.feed(ReaderSampled(Reader("other", "flights", "reports"), (0,), ()))
    assert world.state.of(WATCHES) is before


def test_progress_is_told_in_one_sentence_and_journaled_now_and_then() -> None:
    world = WatchWorld({"flights": Topic({0: 0, 1: 50}, {0: 100, 1: 50})})
    world.start()
    world.looks(8)
    watch = world.watch()
    assert watch.why.startswith("1 of 2 partitions are where they are wanted; flights partition 0: ")
    assert (watch.progress.done, watch.progress.planned, watch.progress.lag_records) == (1, 2, 100)
    assert watch.version <= 1 + 8 // 2 + 1
    quiet = watch.version
    world.looks(20)
    assert world.watch().version - quiet <= 10


def test_every_code_of_watches_has_a_next_step() -> None:
    codes = (
        Code.UNKNOWN_WEBHOOK,
        Code.NOT_FOR_THIS_KIND,
        Code.TOO_MANY_WATCHES,
        Code.WATCH_UNFULFILLED,
        Code.WEBHOOK_FAILED,
    )
    assert all(code.sentence and code.next_step for code in codes)
