"""Whose each of these topics is. Ids contain each other, people call stores `x-changelog`, and topics of users look
internal.
"""

from dataclasses import dataclass

import pytest

from recoveryd.units.internal_topics import InternalTopics, Owner, find_internal_topics, is_declared, may_be_of
from tests.units.test_topology import topology

GENERATED = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
JOIN = "KSTREAM-JOINTHIS-0000000004-store"
KEYS = "KSTREAM-KEY-SELECT-0000000001"
REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic"
RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic"

SURE, UNSURE, NOT = "certain", "ambiguous", "no matter"


def app(application_id: str = "app", *inputs: str, **more: object) -> Owner:
    return Owner(application_id, frozenset(inputs) if inputs else None, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    topic: str
    is_ours: str
    owner: Owner = app()
    others: tuple[Owner, ...] = ()
    beside: tuple[str, ...] = ()
    by_broker: tuple[str, ...] = ()
    why: str = ""


WORDS = app("app", "words", topology=topology("word-count"))
JOINED = app("app", "orders", "customers", topology=topology("named-foreign-key-join"))
LISTED = app("app", listed=frozenset({"app-mine-changelog"}))

ROWS = [
    # Generated names, under exactly this id.
    Row(f"app-{GENERATED}-changelog", SURE),
    Row(f"app-{GENERATED}-repartition", SURE),
    Row(f"app-{JOIN}-changelog", SURE),
    Row(f"app-{KEYS}-repartition", SURE),
    Row("app-KTABLE-SUPPRESS-STATE-STORE-0000000004-changelog", SURE),
    Row("app-COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000008-changelog", SURE),
    Row("app-KSTREAM-TOTABLE-STATE-STORE-0000000009-changelog", SURE),
    Row(f"app-{REGISTRATION}", SURE),
    Row(f"app-{RESPONSE}", SURE),
    Row(f"app.1_x-{GENERATED}-changelog", SURE, app("app.1_x")),
    # Of ids that contain each other.
    Row(f"app-v2-{GENERATED}-changelog", UNSURE, why="whose id is longer seems to have made it"),
    Row(f"app-v2-{GENERATED}-changelog", UNSURE, others=(app("app-v2"),), why="app-v2 can own it as well"),
    Row(f"app-v2-{GENERATED}-changelog", SURE, app("app-v2"), (app("app"),)),
    Row(f"app-v2-{REGISTRATION}", UNSURE, why="whose id is longer seems to have made it"),
    Row(f"app-v2-{REGISTRATION}", SURE, app("app-v2"), (app("app"), app("app-v2-x"))),
    Row(f"app2-{GENERATED}-changelog", NOT),
    Row(f"my-app-{GENERATED}-changelog", NOT),
    Row("app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", UNSURE, others=(app("app-KSTREAM"),), beside=("AGGREGATE",), why="app-KSTREAM can own"),
    Row("app-counts-changelog", NOT, others=(app("other", listed=frozenset({"app-counts-changelog"})),)),
    Row("app-v2-counts-changelog", NOT, others=(app("app-v2", topology=topology("word-count")),)),
    # Named by people: only the topology, a list or the broker can tell.
    Row("app-counts-changelog", UNSURE, why="somebody chose its name"),
    Row("app-counts-changelog", SURE, WORDS),
    Row("app-counts-repartition", SURE, WORDS),
    Row("app-old-changelog", UNSURE, WORDS, why="the topology does not name it"),
    Row(f"app-{GENERATED}-changelog", UNSURE, WORDS, why="the topology does not name it"),
    Row("app-counts-changelog", SURE, by_broker=("app-counts-changelog",)),
    Row("app-mine-changelog", SURE, LISTED),
    Row("app-other-changelog", UNSURE, LISTED, why="the list of internal topics does not name it"),
    Row("app-oc-subscription-registration-topic", SURE, JOINED),
    Row("app-oc-subscription-response-topic", SURE, JOINED),
    Row("app-oc-subscription-store-changelog", SURE, JOINED),
    Row("app-x-subscription-response-topic", UNSURE, why="somebody chose its name"),
    # Stores that are called like changelogs, and tables.
    Row("app-store-changelog-changelog", SURE, app(topology=topology("table-join"))),
    Row("app-store-changelog", UNSURE, app(topology=topology("table-join")), why="the topology does not name it"),
    Row("app-orders-STATE-STORE-0000000000-changelog", SURE, app("app", "orders")),
    Row("app-orders-STATE-STORE-0000000000-changelog", UNSURE, app("app", "words"), why="the table of orders, which is not an input"),
    Row("app-v2-t-STATE-STORE-0000000000-changelog", SURE, app("app", "v2-t")),
    Row("app-v2-t-STATE-STORE-0000000000-changelog", UNSURE, app("app", "v2-t"), beside=("t",), why="whose id is longer can own it, as the table of t"),
    Row("app-v2-t-STATE-STORE-0000000000-changelog", UNSURE, app("app", "v2-t"), (app("app-v2", "t"),), why="app-v2 can own it"),
    Row("app-v2-t-STATE-STORE-0000000000-changelog", SURE, app("app-v2", "t"), (app("app"),)),
    Row("app-v2-t-STATE-STORE-0000000000-changelog", UNSURE, app("app-v2", "t"), (app("app"),), beside=("v2-t",), why="app can own it"),
    # Topics of users that look internal, or nearly.
    Row("app-changelog", NOT),
    Row("app-repartition", NOT),
    Row("app-orders", NOT),
    Row("app-counts-changelog.v2", NOT),
    Row("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-6-topic", NOT),
    Row("orders-changelog", NOT),
    Row(f"{GENERATED}-changelog", NOT),
    Row("app-audit-changelog", NOT, app("app", "app-audit-changelog")),
    Row("app-audit-changelog", NOT, app(outputs=frozenset({"app-audit-changelog"}))),
    Row(f"app-{GENERATED}-changelog", UNSURE, others=(app("feeder", outputs=frozenset({f"app-{GENERATED}-changelog"})),), why="an output of feeder"),
    Row(f"app-{GENERATED}-changelog", SURE, others=(app("app-"), app("ap"), app("p"))),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.topic}" for n, row in enumerate(ROWS)])
def test_whose_a_topic_is(row: Row) -> None:
    found = find_internal_topics(row.owner, {row.topic, "orders", *row.beside}, row.others, row.by_broker)
    assert (row.topic in found.certain, row.topic in dict(found.ambiguous)) == (
        row.is_ours == SURE,
        row.is_ours == UNSURE,
    )
    assert row.why in dict(found.ambiguous).get(row.topic, row.why)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("app-totals-changelog", True),
        ("app-by-name-repartition", True),
        ("app-x-subscription-response-topic", True),
        (f"app-{GENERATED}-changelog", True),  # which another id can own as well
        ("app-orders-STATE-STORE-0000000000-changelog", True),
        ("app-words-STATE-STORE-0000000000-changelog", False),
        (f"app-v2-{GENERATED}-changelog", False),
        (f"app-v2-{REGISTRATION}", False),
        ("app-v2-KTABLE-SUPPRESS-STATE-STORE-0000000004-changelog", False),
        ("other-totals-changelog", False),
    ],
)
def test_what_is_ambiguous_may_be_the_applications_own_unless_its_name_says_otherwise(
    topic: str, expected: bool
) -> None:
    assert may_be_of("app", topic, ("orders",)) is expected


@pytest.mark.parametrize(("outputs", "expected"), [({"app-totals-changelog"}, True), (set(), False)])
def test_what_another_unit_declares_as_its_output_is_told_apart(outputs: set[str], expected: bool) -> None:
    others = [Owner("billing", outputs=frozenset(outputs))]
    ((_, doubt),) = find_internal_topics(app(), ["app-totals-changelog"], others).ambiguous
    assert is_declared(doubt) is expected


@pytest.mark.scenario("S-WIKI-1c")
def test_of_three_applications_whose_ids_begin_alike_each_finds_its_own() -> None:
    ids = ("my-app", "my-app-v1", "my-app-v2")
    topics = [f"{i}-{name}" for i in ids for name in (f"{GENERATED}-changelog", f"{KEYS}-repartition", RESPONSE)]
    for application_id in ids:
        others = [app(other) for other in ids if other != application_id]
        found = find_internal_topics(app(application_id), topics, others)
        assert found.certain == tuple(sorted(t for t in topics if t.startswith(f"{application_id}-K")))


def test_nothing_is_found_where_nothing_is() -> None:
    assert find_internal_topics(app(), (), ()) == InternalTopics()
