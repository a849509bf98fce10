"""Pairs of versions of small applications, as Kafka Streams 4.3.1 describes them: whether the second can go on where
the first stopped (S-WIKI-7a).
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from recoveryd.units.compatibility import Existing, VersionVerdict, compare_versions
from recoveryd.units.topology import Topology, parse_topology

TEXTS = Path(__file__).parent / "versions"
COMPATIBLE, UNKNOWN, INCOMPATIBLE = VersionVerdict.COMPATIBLE, VersionVerdict.UNKNOWN, VersionVerdict.INCOMPATIBLE
NAMES = ("words", "lines", "orders", "customers", "app-by-repartition", "app-counts-changelog")
TABLE, LOST = "customers-STATE-STORE-000000000", "its state is not found again"
GENERATED = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
THERE = Existing(
    "app",
    dict.fromkeys((*NAMES, f"app-{GENERATED}-changelog", f"app-{GENERATED}-repartition"), 3),
    {"app-by-repartition": 0},
)


def version(name: str) -> Topology:
    return parse_topology((TEXTS / f"{name}.txt").read_text())


def there(partitions: Mapping[str, int | None] = {}, unread: Mapping[str, int] = {}) -> Existing:
    known = {name: count for name, count in {**THERE.partitions, **partitions}.items() if count is not None}
    return Existing("app", known, {**THERE.unread, **unread})


@pytest.mark.parametrize(
    ("old", "new", "verdict", "differences"),
    [
        ("named", "named", COMPATIBLE, []),
        ("named", "named-one-map-more", COMPATIBLE, []),
        ("named-one-map-more", "named", COMPATIBLE, []),
        ("generated", "generated", COMPATIBLE, []),
        ("generated", "generated-one-map-after", COMPATIBLE, []),
        ("stateless", "stateless", COMPATIBLE, []),
        ("named", "named-other-output", COMPATIBLE, ["output_new", "output_gone"]),
        ("named", "named-store-renamed", INCOMPATIBLE, ["store_gone", "store_new"]),
        ("named", "named-second-store", INCOMPATIBLE, ["store_new", "output_new"]),
        ("named-second-store", "named", INCOMPATIBLE, ["store_gone", "output_gone"]),
        ("named", "stateless", INCOMPATIBLE, ["store_gone", "between_gone"]),
        ("stateless", "named", INCOMPATIBLE, ["store_new", "between_new"]),
        ("generated", "generated-one-map-more", INCOMPATIBLE, ["index_moved", "between_moved"]),
        ("generated", "named", INCOMPATIBLE, ["store_gone", "store_new", "between_gone", "between_new"]),
        ("named", "named-without-repartition", INCOMPATIBLE, ["between_gone", "renumbered"]),
        ("named-without-repartition", "named", INCOMPATIBLE, ["between_new", "renumbered"]),
        ("named", "named-reduce", INCOMPATIBLE, ["operation_changed"]),
        ("named", "named-input-merged", INCOMPATIBLE, ["feed_changed"]),
        ("named-input-merged", "named", INCOMPATIBLE, ["feed_changed"]),
        ("named", "named-other-input", INCOMPATIBLE, ["feed_changed"]),
        ("named", "named-global-before", UNKNOWN, ["renumbered"]),
        ("named", "named-stateless-input-before", UNKNOWN, ["input_new", "renumbered", "output_new"]),
        ("named", "named-stateless-input-after", UNKNOWN, ["input_new", "output_new"]),
        ("named-stateless-input-after", "named", UNKNOWN, ["input_gone", "output_gone"]),
        ("stateless", "stateless-input-more", UNKNOWN, ["input_new"]),
        ("pattern", "pattern", COMPATIBLE, []),
        ("pattern", "pattern-other", UNKNOWN, ["input_new", "input_gone"]),
        ("table", "table", COMPATIBLE, []),
        ("table", "table-one-map-more", UNKNOWN, ["table_moved"]),
    ],
)
def test_whether_a_version_goes_on_where_another_stopped(
    old: str, new: str, verdict: VersionVerdict, differences: list[str]
) -> None:
    found = compare_versions(version(old), version(new), THERE)
    assert (found.verdict, [d.name for d in found.differences]) == (verdict, differences)


@pytest.mark.parametrize(
    ("old", "new", "existing", "verdict", "says"),
    [
        (
            "named",
            "named",
            there({"app-counts-changelog": 2}),
            INCOMPATIBLE,
            "app-counts-changelog has 2 partitions, and sub-topology 1 has 3 tasks",
        ),
        ("named", "named", there({"app-by-repartition": None, "app-counts-changelog": 2}), COMPATIBLE, ""),
        (
            "named",
            "named",
            there({"app-counts-changelog": None}),
            UNKNOWN,
            "the store counts has no changelog: only the disks of instances hold its state",
        ),
        (
            "named",
            "named-without-repartition",
            there(unread={"app-by-repartition": 1_200}),
            INCOMPATIBLE,
            "the topic by-repartition is not in the new version: 1,200 records in it would never be read",
        ),
        (
            "named",
            "named-without-repartition",
            THERE,
            INCOMPATIBLE,
            "the topic by-repartition is not in the new version: nothing is left in it",
        ),
        (
            "generated",
            "generated-one-map-more",
            THERE,
            INCOMPATIBLE,
            f"the store {GENERATED} is now {GENERATED[:-1]}4, because the code in front of it changed: {LOST}",
        ),
        (
            "table",
            "table-one-map-more",
            there({"app-customers-STATE-STORE-0000000001-changelog": 3}),
            INCOMPATIBLE,
            f"the store {TABLE}1 is now {TABLE}2, because the code in front of it changed: {LOST}",
        ),
        (
            "named",
            "named-store-renamed",
            THERE,
            INCOMPATIBLE,
            "the store counts is gone, and what it held with it; was it renamed to tallies?",
        ),
    ],
)
def test_what_exists_on_the_cluster_counts(
    old: str, new: str, existing: Existing, verdict: VersionVerdict, says: str
) -> None:
    found = compare_versions(version(old), version(new), existing)
    assert (found.verdict, found.differences[0].message if found.differences else "") == (verdict, says)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (None, version("named"), "the old version has no topology, so nothing can be compared"),
        (version("named"), None, "the new version has no topology, so nothing can be compared"),
        (None, None, "neither version has a topology, so nothing can be compared"),
    ],
)
def test_without_a_text_nobody_knows(old: Topology | None, new: Topology | None, says: str) -> None:
    found = compare_versions(old, new, THERE)
    assert (found.verdict, [d.message for d in found.differences]) == (UNKNOWN, [says])
