"""The incrementally kept parts and totals of `Recoveries` equal those computed from every recovery."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recoveryd.kernel.states import State
from recoveryd.recovery.model import Attempt, PartitionProgress, Progress, Recovery
from recoveryd.recovery.recoveries import Recoveries, is_live
from tests.builders.core import command, make_spec
from tests.builders.world import World


def _model() -> Recovery:
    world = World()
    world.feed(command("replay"))
    return world.recovery()


MODEL = _model()
STEPS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2", "r3", "r4"]),
            st.sampled_from(State),
            st.booleans(),
            st.integers(0, 3),
            st.sampled_from(["flights", "other"]),
        ),
        max_size=4,
    ),
    max_size=12,
)


def made(name: str, state: State, released: bool, copied: int, topic: str) -> Recovery:
    rows = (PartitionProgress(0, copied, 9, copied=copied, bytes=copied * 10),)
    spec = replace(make_spec(), target=replace(MODEL.spec.target, topic=topic))
    return replace(MODEL, id=name, state=state, spec=spec, attempt=Attempt(released=released), progress=Progress(rows))


def assert_is_what_a_scan_finds(known: Recoveries) -> None:
    scanned = Recoveries(dict(known))
    assert (known.live, known.ended, known.totals) == (scanned.live, scanned.ended, scanned.totals)
    assert all(is_live(r) for r in known.live.values())
    assert not any(is_live(r) for r in known.ended.values())
    assert len(known) == len(list(known)) == len(known.live) + len(known.ended)


@given(STEPS)
def test_changes_lead_to_what_a_scan_finds(steps: list[list[tuple[str, State, bool, int, str]]]) -> None:
    known, plain = Recoveries(), dict[str, Recovery]()
    for step in steps:
        changed = {row[0]: made(*row) for row in step}
        earlier, known = known, known.with_changes(changed)
        plain |= changed
        assert known == plain
        assert_is_what_a_scan_finds(known)
        assert {r.id: r for r in known.changed_since(earlier)} == changed


@given(STEPS, st.integers(0, 12))
def test_what_changed_over_many_steps_is_the_difference_of_first_and_last(
    steps: list[list[tuple[str, State, bool, int, str]]], first: int
) -> None:
    states = [Recoveries()]
    for step in steps:
        states.append(states[-1].with_changes({row[0]: made(*row) for row in step}))
    earlier, last = states[min(first, len(states) - 1)], states[-1]
    different = {i: r for i, r in last.items() if earlier.get(i) is not r}
    assert {r.id: r for r in last.changed_since(earlier)} == different


def test_totals_are_those_of_ended_recoveries_alone() -> None:
    known = Recoveries({
        "r1": made("r1", State.COMPLETED, True, 2, "other"),
        "r2": made("r2", State.COMPLETED, True, 3, "other"),
        "r3": made("r3", State.RUNNING, False, 9, "other"),
    })  # fmt: skip
    assert dict(known.totals.counts) == {("replay", State.COMPLETED): 2}
    copied = known.totals.copied
    assert {key: (c.into_records, c.records, c.bytes) for key, c in copied.items()} == {
        ("main", "flights"): (0, 5, 50),
        ("main", "other"): (5, 5, 50),
    }
