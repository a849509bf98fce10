"""`upgrade` in the core: the order of its steps, which versions are refused or asked about, each step failing and each
cut off by the death of the daemon, and the way back.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.units.facts import Member
from recoveryd.units.model import ControlKind, Output, Unit, UnitKind
from recoveryd.units.topology import Topology, parse_topology
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.commands import Upgrade
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import START_FAILED, Outcome, StepReported
from recoveryd.workflows.model.spec import OnIncompatible, UpgradeSpec
from recoveryd.workflows.model.workflow import UnitUndo
from tests.workflows.app_world import GROUP, PARTITIONS, UNIT, AppWorld, Log
from tests.workflows.world import report

TEXTS = Path(__file__).parent.parent / "units" / "versions"
STEPS = ("stop_application", "await_empty", "snapshot", "start_application", "await_caught_up", "look_at_outputs")
BACK = ("stop_new_version", "await_empty_again", "start_old_version")


def topology(name: str) -> Topology:
    text = (TEXTS / f"{name}.txt").read_text()
    return parse_topology(text.replace("words", "orders").replace("by-repartition", "by-key-repartition"))


OLD = replace(UNIT, topology=topology("named"))


def version(name: str, **more: object) -> Unit:
    return replace(OLD, name="shop-v2", topology=topology(name), **more)  # type: ignore[arg-type]


FITS = version("named-one-map-more")
OTHER = version("named-store-renamed")
IN_DOUBT = version("named-global-before")


class UpgradeWorld(AppWorld):
    """`running`: which version the members are of."""

    def __init__(self, new: Unit = FITS, old: Unit = OLD) -> None:
        super().__init__(old, new)
        self.started: list[str] = []

    def upgrade(self, workflow: str = "w1", **more: object) -> str:
        spec = UpgradeSpec(OLD.name, "shop-v2", **more)  # type: ignore[arg-type]
        return self.send(lambda meta: Upgrade(meta, spec), subject=workflow)

    def starts(self, *, reads_all: bool = True, says_it: bool = True) -> None:
        """A person says which version it is: both have the same group."""
        super().starts(reads_all=reads_all)
        step = self.waits_at
        if says_it and step in {"start_application", "start_old_version"}:
            self.ack(step)
            self.pass_time(6)

    def take(self, effect: TakeStep) -> StepReported:
        if isinstance(effect.action, AwaitStarted) and self.members and effect.action.unit not in self.started[-1:]:
            self.started.append(effect.action.unit)
        return super().take(effect)


def begun(new: Unit = FITS, **more: object) -> UpgradeWorld:
    world = UpgradeWorld(new)
    assert world.upgrade(**more) == "accepted"
    return world


@pytest.mark.scenario("S-WIKI-7")
def test_the_old_version_is_drained_before_the_new_one_is_asked_for_and_nothing_is_set() -> None:
    world = begun()
    before = dict(world.committed)
    assert [step.name for step in world.workflow.steps] == list(STEPS)
    assert world.waits_at == "stop_application"
    world.pass_time(60)
    assert world.waits_at == "stop_application"
    world.stops()
    assert (world.waits_at, world.done, world.committed) == ("start_application", [], before)
    assert "shop-v2" in str(world.workflow.plan.changes[0].after)  # type: ignore[union-attr]
    world.starts()
    assert (world.workflow.state, world.started) == (State.COMPLETED, ["shop-v2"])
    assert world.done == []


def test_members_of_the_group_are_not_taken_for_the_new_version_where_people_start_it() -> None:
    world = begun()
    world.stops()
    world.starts(says_it=False)
    world.pass_time(60)
    assert world.waits_at == "start_application", "the old version may have come back"
    assert world.ack("start_application") == "accepted"
    world.pass_time(6)
    assert world.workflow.state is State.COMPLETED
    assert world.rollback() == "accepted"
    world.stops()
    assert world.waits_at == "start_old_version"
    world.starts(says_it=False)
    assert world.waits_at == "start_old_version"


def test_a_version_that_restores_its_state_is_waited_for_as_long_as_a_person() -> None:
    world = begun()
    world.stops()
    world.starts(reads_all=False)
    world.pass_time(3 * 3_600, every_s=60)
    assert world.waits_at == "await_caught_up", world.workflow.why
    world.starts()
    world.pass_time(6)
    assert world.workflow.state is State.COMPLETED


def test_where_the_daemon_starts_it_nobody_is_asked() -> None:
    world = begun(replace(FITS, control=ControlKind.KUBERNETES))
    world.stops()
    world.starts(says_it=False)
    assert world.workflow.state is State.COMPLETED


def test_a_new_version_whose_start_failed_is_stopped_before_the_old_one_runs_again() -> None:
    world = begun(replace(FITS, control=ControlKind.KUBERNETES))

    def fails(effect: TakeStep) -> StepReported | None:
        if effect.step != "start_application":
            return None
        return report(effect, Outcome.NOT_YET, "1 of 3 is ready", evidence={**effect.seen, START_FAILED: True})

    world.fault = fails
    world.stops()
    world.pass_time(10)
    assert (world.waits_at, world.stop()) == ("decide_start_application", "accepted")
    world.fault = lambda _: None
    assert world.rollback() == "accepted"
    back = world.workflow.steps[-len(BACK) :]
    assert tuple(step.name for step in back) == BACK
    assert isinstance(back[0].action, AwaitStopped)
    assert back[0].action.unit == "shop-v2"


@pytest.mark.scenario("S-WIKI-7b")
def test_the_range_that_stays_unfixed_ends_at_the_cut_and_replays_of_it_are_offered() -> None:
    world = UpgradeWorld()
    world.topics["orders"].start = 10
    world.upgrade()
    planned = world.workflow.plan.version  # type: ignore[union-attr]
    assert planned is not None
    assert (planned.unfixed_range, planned.fix) == ({"orders": dict.fromkeys(range(PARTITIONS), (10, 60))}, ())
    world.committed["orders", 1] = 77
    world.stops()
    noted = world.workflow.plan.version  # type: ignore[union-attr]
    assert noted is not None
    assert noted.unfixed_range == {"orders": {0: (10, 60), 1: (10, 77)}}
    (replay,) = noted.fix
    assert replay["source"]["to"] == {"offsets": {"0": 60, "1": 77}}
    assert replay["target"]["topic"] == "orders.before-w1"


@pytest.mark.scenario("S-WIKI-7a")
@pytest.mark.parametrize(
    ("new", "more", "verdict", "first"),
    [
        (FITS, {}, "compatible", "stop_application"),
        (IN_DOUBT, {}, "unknown", "confirm_compatibility"),
        (IN_DOUBT, {"on_incompatible": OnIncompatible.CONTINUE}, "unknown", "stop_application"),
        (OTHER, {"on_incompatible": OnIncompatible.CONTINUE}, "incompatible", "stop_application"),
        (replace(FITS, topology=None), {}, "unknown", "confirm_compatibility"),
    ],
)
def test_what_fits_goes_on_and_what_nobody_can_tell_is_asked(
    new: Unit, more: dict[str, object], verdict: str, first: str
) -> None:
    world = begun(new, **more)
    assert world.workflow.plan is not None
    assert world.workflow.plan.version is not None
    assert (world.workflow.plan.version.verdict.value, world.waits_at) == (verdict, first)
    world.run_through()
    assert world.workflow.state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-7a")
def test_a_version_that_would_not_find_its_state_is_refused_with_the_reason_and_nothing_is_stopped() -> None:
    world = UpgradeWorld(OTHER)
    assert world.upgrade() == "rejected"
    assert world.answers[-1].code == Code.VERSIONS_INCOMPATIBLE.value
    assert "the store counts is gone" in world.answers[-1].message
    assert world.members


@pytest.mark.scenario("S-WIKI-7a")
def test_state_that_is_found_in_another_place_needs_clean_disks_before_the_start() -> None:
    assert "clean_local_state" in [s.name for s in begun(IN_DOUBT).workflow.steps]
    assert "clean_local_state" not in [s.name for s in begun(FITS).workflow.steps]


def test_without_state_and_topology_there_is_nothing_to_be_compared() -> None:
    plain = replace(UNIT, kind=UnitKind.GROUP, stateful=None)
    world = UpgradeWorld(replace(plain, name="shop-v2"), plain)
    world.upgrade()
    assert [step.name for step in world.workflow.steps] == list(STEPS)


@pytest.mark.parametrize(
    ("change", "new", "code", "says"),
    [
        (lambda _: None, replace(FITS, cluster="far"), Code.INVALID_VALUE, "far"),
        (lambda _: None, replace(FITS, kind=UnitKind.GROUP), Code.INVALID_VALUE, "kind"),
        (lambda _: None, replace(FITS, name="shop-v3"), Code.UNKNOWN_UNIT, "to_unit"),
        (lambda w: w.topics.pop("orders"), FITS, Code.SOURCE_TOPIC_MISSING, "orders"),
    ],
)
def test_what_cannot_be_exchanged_is_refused(
    change: Callable[[UpgradeWorld], object], new: Unit, code: Code, says: str
) -> None:
    world = UpgradeWorld(new)
    change(world)
    assert world.upgrade() == "rejected"
    assert world.answers[-1].code == code.value
    assert says in world.answers[-1].message + world.answers[-1].hint


def test_a_unit_is_not_its_own_next_version_and_connectors_have_none() -> None:
    world = UpgradeWorld()
    assert world.send(lambda meta: Upgrade(meta, UpgradeSpec(OLD.name, OLD.name))) == "rejected"
    connector = replace(OLD, kind=UnitKind.CONNECT)
    world = UpgradeWorld(replace(connector, name="shop-v2"), connector)
    assert (world.upgrade(), world.answers[-1].code) == ("rejected", Code.GROUP_TYPE.value)


@pytest.mark.scenario("S-WIKI-7")
def test_commits_after_the_last_member_left_stop_it_before_the_new_version_is_started() -> None:
    world = begun()
    world.is_still = False
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert world.started == []


def test_records_that_retention_took_before_they_were_read_are_not_passed_over_in_silence() -> None:
    world = begun()
    world.topics["orders"].start = 61
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert "orders 0" in world.workflow.why


def test_a_topic_that_was_made_again_meanwhile_is_noticed_by_the_step_that_notes() -> None:
    world = begun()
    note = next(s.action for s in world.workflow.steps if s.name == "snapshot")
    assert note.topic_ids == {"orders": "orders-1", "steps": "steps-1"}  # type: ignore[union-attr]


def go_back(world: UpgradeWorld) -> None:
    """Whoever is asked stops what runs, and starts the old version when its turn comes."""
    for _ in range(4):
        match world.waits_at:
            case "stop_new_version" | "await_empty_again":
                world.stops()
            case "start_old_version":
                world.starts(reads_all=False)
        world.pass_time(5)


@pytest.mark.scenario("S-WIKI-7")
@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_fails_for_good_can_be_rolled_back_to_the_old_version(name: str) -> None:
    world = UpgradeWorld()
    before = dict(world.committed)
    world.fail_at(name, retriable=False)
    world.upgrade()
    world.run_through()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)
    assert [s.name for s in world.workflow.steps if s.state.value == "failed"] == [name]
    world.fault, world.started = (lambda _: None), []
    assert world.rollback() == "accepted"
    world.pass_time(3)
    go_back(world)
    assert world.workflow.state is State.ROLLED_BACK
    assert world.started == [OLD.name]
    assert [row.state.value for row in world.workflow.undo if isinstance(row, UnitUndo)] == ["done"]
    if STEPS.index(name) < STEPS.index("await_caught_up"):
        assert world.committed == before


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_fails_for_a_while_is_tried_again(name: str) -> None:
    world = UpgradeWorld()
    world.fail_at(name, retriable=True, times=3)
    world.upgrade()
    world.run_through()
    assert world.workflow.state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-7")
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    world = UpgradeWorld()
    before = dict(world.committed)
    world.die_at(name, is_done=is_done)
    world.upgrade()
    world.run_through()
    world.live_again()
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    assert set(world.started) == {"shop-v2"}
    assert world.workflow.plan is not None
    assert world.workflow.plan.version is not None
    cut = {
        (t, p): stop for t, found in world.workflow.plan.version.unfixed_range.items() for p, (_, stop) in found.items()
    }
    assert cut == {place: at for place, at in before.items() if place[0] == "orders"}


@pytest.mark.parametrize("name", BACK)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_on_the_way_back_goes_on_there(name: str, is_done: bool) -> None:
    world = begun()
    world.run_through()
    world.started = []
    world.die_at(name, is_done=is_done)
    assert world.rollback() == "accepted"
    go_back(world)
    world.live_again()
    go_back(world)
    assert world.workflow.state is State.ROLLED_BACK
    assert set(world.started) == {OLD.name}


@pytest.mark.scenario("S-WIKI-7")
def test_the_old_version_comes_back_after_the_upgrade_was_done_and_goes_on_where_the_new_one_stands() -> None:
    world = begun()
    world.run_through()
    world.committed["orders", 0] = 90
    assert world.rollback() == "accepted"
    go_back(world)
    assert (world.workflow.state, world.started[-1], world.committed["orders", 0]) == (State.ROLLED_BACK, OLD.name, 90)
    assert world.rollback() == "rejected"


def test_an_upgrade_that_was_stopped_before_anything_stood_leaves_the_old_version_running() -> None:
    world = begun()
    assert world.stop() == "accepted"
    assert world.rollback() == "accepted"
    world.pass_time(3)
    assert (world.workflow.state, world.started) == (State.ROLLED_BACK, [OLD.name])


def test_as_many_instances_are_started_as_ran_before_whatever_dies() -> None:
    world = begun()
    before = {"replicas": 3}

    def told(effect: TakeStep) -> StepReported | None:
        if effect.step != "stop_application" or world.members:
            return None
        return report(effect, Outcome.DONE, "stopped", evidence={"before": before})

    world.fault = told
    world.stops()
    world.lead()
    starts = [s.action for s in world.workflow.steps if isinstance(s.action, AwaitStarted)]
    assert [action.before for action in starts] == [before]
    world.run_through()
    assert world.rollback() == "accepted"
    assert [s.action.before for s in world.workflow.steps if isinstance(s.action, AwaitStarted)] == [before, before]


def test_only_one_workflow_works_on_both_versions() -> None:
    world = begun()
    assert world.upgrade("w2") == "rejected"
    assert world.answers[-1].code == Code.IN_USE.value
    assert world.reprocess_as("w3") == "rejected"


def test_a_dry_run_has_the_hash_of_the_same_plan_while_the_old_version_reads_on() -> None:
    world = begun(dry_run=True)
    assert (world.workflow.state, world.workflow.plan is not None) == (State.PLANNED, True)
    planned = world.workflow.plan.hash  # type: ignore[union-attr]
    world.committed |= {("orders", p): 93 for p in range(PARTITIONS)}
    world.topics["steps"].end += 50
    assert world.upgrade(plan_hash=planned) == "accepted"
    assert world.send(
        lambda meta: Upgrade(meta, UpgradeSpec(OLD.name, "shop-v2", plan_hash="sha256:0")), subject="w2"
    ) == ("rejected")


@pytest.mark.parametrize(
    ("old", "new", "topic"),
    [
        ("named", "named-without-repartition", "app-by-key-repartition"),
        ("generated", "generated-one-map-more", "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"),
    ],
)
def test_what_is_left_in_a_topic_between_moves_and_is_no_part_of_what_was_agreed_to(
    old: str, new: str, topic: str
) -> None:
    world = UpgradeWorld(version(new), replace(OLD, topology=topology(old)))
    world.topics[topic] = Log(f"{topic}-1", 0, 20)
    assert world.upgrade(dry_run=True, on_incompatible=OnIncompatible.CONTINUE) == "accepted"
    plan = world.workflow.plan
    assert plan is not None
    assert plan.version is not None
    assert any(
        f"{topic.removeprefix('app-')} " in d.message and "records" in d.message for d in plan.version.differences
    )
    world.topics[topic].end += 50
    assert world.upgrade("w2", plan_hash=plan.hash, on_incompatible=OnIncompatible.CONTINUE) == "accepted"


def test_owners_are_told_what_changes_for_them() -> None:
    world = UpgradeWorld(replace(FITS, outputs={"log": Output(), "extra": Output()}))
    world.topics["extra"] = Log("extra-1", 0, 0)
    del world.committed["steps", 1]
    world.upgrade()
    assert world.workflow.plan is not None
    told = "\n".join(world.workflow.plan.findings)
    assert "steps 1 has no commit" in told
    assert "shop-v2 writes extra" in told
    assert "shop-v2 does not write totals any more" in told
    assert "not known to be exactly once" in told


def test_it_waits_for_members_of_the_group_by_name() -> None:
    world = UpgradeWorld()
    world.members = [Member("m1", "shop-1", "host", "static-1")]
    world.upgrade()
    assert world.workflow.waiting_for is not None
    assert world.workflow.waiting_for.members == ("shop-1 on host, static static-1",)
    assert world.workflow.spec.group == GROUP
