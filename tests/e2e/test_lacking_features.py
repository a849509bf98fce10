"""A cluster whose brokers do not answer all requests that Kafka has: what is lacking is named, and everything else goes
on.
"""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.data import fill_plain
from tests.e2e.log_reader import whole_log
from tests.e2e.proxy import Api, ProxiedBroker
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

RACK = "zone-b"
# DeleteRecords, IncrementalAlterConfigs, OffsetDelete, DescribeClientQuotas, AlterClientQuotas, DescribeProducers,
# ListTransactions, and those of share groups and of the newer groups of Streams.
LACKING = frozenset({21, 44, 47, 48, 49, 61, 66, 76, 77, 78, 79, 88, 89, 90})


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    with ProxiedBroker(tmp_path_factory.mktemp("lacking")) as started:
        started.through.lacking = LACKING
        yield started


@pytest.fixture(scope="module")
def stack(own_broker: ProxiedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Its daemon and applications know only the proxy, and say in which rack they are."""
    access = {"bootstrap.servers": own_broker.through.bootstrap, "client.rack": RACK}
    settings = {"clusters": {"main": access}, "quotas": {"enabled": True}}
    with Stack(own_broker.bootstrap, tmp_path_factory.mktemp("stack"), settings) as made:
        made.daemon()
        yield made


@pytest.mark.scenario("S-RUN-25")
def test_what_a_cluster_lacks_is_listed_with_what_is_done_without_it(stack: Stack) -> None:
    told = stack.recoveryctl("doctor", "features", "-o", "json")
    assert told.exit_code == 0, told.stderr
    found = {row["name"]: row for row in json.loads(told.stdout)}
    assert {name for name, row in found.items() if not row["has"]} == {
        "deleting records", "configs one by one", "deleting commits", "client quotas", "who wrote a partition",
        "listing transactions", "streams groups", "share groups",
    }  # fmt: skip
    assert found["client quotas"]["lacking"] == ["DescribeClientQuotas", "AlterClientQuotas"]
    told = stack.recoveryctl("doctor", "-o", "json")
    [line] = [row for row in json.loads(told.stdout) if row["check"] == "features of main"]
    assert line["verdict"] == "warn", "nothing is lacking that a copy needs"
    assert "client quotas (DescribeClientQuotas, AlterClientQuotas): recoveries keep to their rate" in line["found"]


@pytest.mark.scenario("S-RUN-25")
def test_a_limited_copy_is_exact_without_quotas_which_are_named_once_and_reads_from_its_own_rack(
    stack: Stack, own_broker: ProxiedBroker
) -> None:
    seen = own_broker.through.see(Api.FETCH, RACK)
    source, target = f"{stack.mark}-in", f"{stack.mark}-out"
    fill_plain(stack.bootstrap, source, 2, 500)
    stack.control.replay("without", source, target, target_create=True, limits={"max_bytes_per_s": 1_000_000})
    done = stack.follower.wait_state("without", "completed")
    assert done["verification"]["result"] == "match"
    ends = whole_log(stack.bootstrap, source)
    assert sum(stop - start for start, stop in ends.values()) == done["progress"]["records"]
    refused = [e["data"]["message"] for e in stack.follower.events(kind="quota_refused")]
    assert len(refused) == len(set(refused)), "each is named once"
    assert any("the brokers do not answer DescribeClientQuotas" in message for message in refused)
    seen.await_met()
