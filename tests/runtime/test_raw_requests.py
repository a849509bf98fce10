"""Requests sent through internals of aiokafka, compared with the bytes of Kafka's protocol: an aiokafka that encodes
them differently fails here first.
"""

import struct
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    IncompatibleBrokerVersion,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
)

from recoveryd.adapters.kafka.raw_groups import ShareMember, StreamsGroup, StreamsMember, StreamsPart
from recoveryd.adapters.kafka.raw_requests import Producing, RawClient
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

VERSIONS = {
    2: (1, 10),
    18: (0, 4),
    8: (2, 10),
    9: (1, 10),
    16: (0, 5),
    22: (0, 6),
    24: (0, 5),
    26: (0, 5),
    35: (1, 4),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    61: (0, 0),
    66: (0, 2),
    77: (1, 1),
    89: (0, 0),
    90: (0, 1),
}
ENTITY = b"\x00\x00\x00\x01" + b"\x00\x09client-id" + b"\x00\x04lane"


class Broker:
    """Answers each request with the same bytes, and keeps what it was sent."""

    def __init__(self, answer: bytes, versions: Mapping[int, tuple[int, int]] | None = None) -> None:
        self._answer, self._versions = answer, VERSIONS if versions is None else versions
        self.asked: list[tuple[int, int, int, bytes]] = []  # node, request, its version, its bytes

    @property
    def cluster(self) -> Any:
        return SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])

    def get_random_node(self) -> int:
        return 7

    async def coordinator_lookup(self, kind: int, key: str) -> int:
        assert kind == 0  # of groups
        assert key == "app"
        return 5

    async def send(self, node: int, request: Any, group: object = None) -> Any:
        assert (group is ConnectionGroup.COORDINATION) == (node == 5)
        form = request.prepare(self._versions)
        self.asked.append((node, form.API_KEY, form.API_VERSION, form.encode()))
        return form.RESPONSE_TYPE.decode(self._answer)


def client(broker: Broker) -> RawClient:
    return RawClient(broker, "speak")


async def test_quotas_are_asked_for_by_the_type_of_what_has_a_name() -> None:
    values = b"\x00\x00\x00\x01" + b"\x00\x12producer_byte_rate" + struct.pack(">d", 1.5e6)
    broker = Broker(b"\x00\x00\x00\x00" + b"\x00\x00" + b"\xff\xff" + b"\x00\x00\x00\x01" + ENTITY + values)
    [(entity, found)] = await client(broker).client_quotas("client-id")
    assert (list(entity), list(found)) == ([("client-id", "lane")], [("producer_byte_rate", 1.5e6)])
    # One component: its type, any name (2), no name; and entities of this type alone.
    asked = b"\x00\x00\x00\x01" + b"\x00\x09client-id" + b"\x02" + b"\xff\xff" + b"\x01"
    assert broker.asked == [(7, 48, 0, asked)]


async def test_quotas_are_changed_and_removed_in_one_request() -> None:
    broker = Broker(b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x00" + b"\xff\xff" + ENTITY)
    await client(broker).alter_client_quotas("client-id", {"lane": [("a", 2.0, False), ("b", 0.0, True)]})
    kept = b"\x00\x01a" + struct.pack(">d", 2.0) + b"\x00"
    removed = b"\x00\x01b" + struct.pack(">d", 0.0) + b"\x01"
    asked = b"\x00\x00\x00\x01" + ENTITY + b"\x00\x00\x00\x02" + kept + removed + b"\x00"
    assert broker.asked == [(7, 49, 0, asked)]


@pytest.mark.parametrize(
    ("number", "code", "retriable"),
    [
        (31, Code.NOT_AUTHORISED, False),
        (42, Code.CLUSTER_UNREACHABLE, False),
        (41, Code.CLUSTER_UNREACHABLE, True),
        (89, Code.CLUSTER_UNREACHABLE, True),
    ],
)
async def test_what_the_broker_answers_instead_says_whether_later_may_help(
    number: int, code: Code, retriable: bool
) -> None:
    said = b"\x00\x02no"
    asked = Broker(b"\x00\x00\x00\x00" + struct.pack(">h", number) + said + b"\xff\xff\xff\xff")
    with pytest.raises(ClusterProblem, match="Could not speak: no") as refused:
        await client(asked).client_quotas("client-id")
    assert (refused.value.code, refused.value.retriable) == (code, retriable)
    changed = Broker(b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + struct.pack(">h", number) + said + ENTITY)
    with pytest.raises(ClusterProblem, match="Could not speak: no") as refused:
        await client(changed).alter_client_quotas("client-id", {"lane": [("a", 2.0, False)]})
    assert (refused.value.code, refused.value.retriable) == (code, retriable)


async def test_sizes_are_those_of_the_copies_that_serve() -> None:
    def entry(partition: int, size: int, is_future: bool) -> bytes:
        return struct.pack(">iqq?", partition, size, 0, is_future)

    rows = entry(0, 2**40, False) + entry(3, 5, False) + entry(3, 4, True)
    topic = b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x03" + rows
    first = b"\x00\x00" + b"\x00\x02/a" + topic
    broken = b"\x00\x38" + b"\x00\x02/b" + b"\x00\x00\x00\x00"  # a disk that failed says its error and no topics
    broker = Broker(b"\x00\x00\x00\x00" + b"\x00\x00\x00\x02" + first + broken)
    assert await client(broker).log_sizes(2, "t", [0, 3]) == {0: 2**40, 3: 5}
    asked = b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x02" + struct.pack(">ii", 0, 3)
    assert broker.asked == [(2, 35, 1, asked)]


def deleted(error: int, *partitions: tuple[int, int]) -> bytes:
    """The answer to a request for offsets of topic t: pairs of a partition and its error."""
    rows = b"".join(struct.pack(">ih", partition, code) for partition, code in partitions)
    topics = b"\x00\x00\x00\x01" + b"\x00\x01t" + struct.pack(">i", len(partitions)) + rows
    return struct.pack(">hi", error, 0) + (topics if partitions else b"\x00\x00\x00\x00")


async def test_offsets_are_deleted_by_the_coordinator_of_the_group() -> None:
    broker = Broker(deleted(0, (0, 0), (3, 0)))
    await client(broker).delete_offsets("app", {"t": [0, 3]})
    asked = b"\x00\x03app" + b"\x00\x00\x00\x01" + b"\x00\x01t" + struct.pack(">iii", 2, 0, 3)
    assert broker.asked == [(5, 47, 0, asked)]


class Loading(Broker):
    """Its coordinator loads twice before it answers: first it is not told who it is, then it says so itself."""

    def __init__(self, loading: bytes, answer: bytes) -> None:
        super().__init__(loading)
        self._loaded = answer
        self.lookups = 0

    async def coordinator_lookup(self, kind: int, key: str) -> int:
        self.lookups += 1
        if self.lookups == 1:
            raise GroupCoordinatorNotAvailableError
        return await super().coordinator_lookup(kind, key)

    async def send(self, node: int, request: Any, group: object = None) -> Any:
        answer = await super().send(node, request, group)
        self._answer = self._loaded
        return answer


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_a_coordinator_that_loads_is_asked_again(code: int) -> None:
    broker = Loading(deleted(code), deleted(0, (0, 0), (3, 0)))
    await RawClient(broker, "speak", time.monotonic() + 60.0).delete_offsets("app", {"t": [0, 3]})
    assert (broker.lookups, len(broker.asked)) == (3, 2)
    late = Loading(deleted(code), deleted(0, (0, 0), (3, 0)))
    late.lookups = 1
    with pytest.raises(ClusterProblem, match="Could not speak: Broker: ") as told:
        await client(late).delete_offsets("app", {"t": [0, 3]})
    assert told.value.retriable


async def test_a_broker_that_loads_its_transactions_is_asked_again() -> None:
    def known(code: int) -> bytes:  # no time, the error, no unknown states, no transactions, no tags
        return struct.pack(">ih", 0, code) + b"\x01\x01\x00"

    broker = Loading(known(14), known(0))
    assert await RawClient(broker, "speak", time.monotonic() + 60.0).transactions() == []
    assert len(broker.asked) == 2


@pytest.mark.parametrize("code", [5, 6, 9, 74, 75, 78])
async def test_a_partition_that_another_broker_leads_now_is_worth_another_try(code: int) -> None:
    with pytest.raises(ClusterProblem) as told:
        await client(Broker(deleted(0, (0, code)))).delete_offsets("app", {"t": [0]})
    assert told.value.retriable


async def test_without_a_group_there_are_no_offsets_to_delete() -> None:
    await client(Broker(deleted(69))).delete_offsets("app", {"t": [0]})


@pytest.mark.parametrize(
    ("answer", "says", "code", "retriable"),
    [
        (deleted(68), "the group has members", Code.GROUP_NOT_EMPTY, True),
        (deleted(0, (0, 0), (1, 86)), "has members that read the topic", Code.GROUP_NOT_EMPTY, True),
        (deleted(30), "the user lacks Delete on Group app", Code.NOT_AUTHORISED, False),
        (deleted(0, (0, 29)), "the user lacks Read on Topic t", Code.NOT_AUTHORISED, False),
        (deleted(16), "Broker: Not coordinator", Code.CLUSTER_UNREACHABLE, True),
    ],
)
async def test_offsets_that_stay_are_named_with_the_reason(
    answer: bytes, says: str, code: Code, retriable: bool
) -> None:
    with pytest.raises(ClusterProblem, match=says) as refused:
        await client(Broker(answer)).delete_offsets("app", {"t": [0, 1]})
    assert (refused.value.code, refused.value.retriable) == (code, retriable)


async def test_commits_come_with_epochs_and_with_metadata_of_their_own_length() -> None:
    def row(partition: int, offset: int, epoch: int, metadata: bytes, error: int = 0) -> bytes:
        return struct.pack(">iqi", partition, offset, epoch) + metadata + struct.pack(">h", error)

    rows = row(0, 7, 2, b"\x00\x02ab") + row(1, -1, -1, b"\x00\x00") + row(2, 0, -1, b"\xff\xff")
    answer = b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x03" + rows + b"\x00\x00"
    broker = Broker(answer)
    assert list(await client(broker).committed("app", {"t": [0, 1, 2]})) == [("t", 0, 7, 2, "ab"), ("t", 2, 0, -1, "")]
    asked = b"\x00\x03app" + b"\x00\x00\x00\x01" + b"\x00\x01t" + struct.pack(">iiii", 3, 0, 1, 2)
    assert broker.asked == [(5, 9, 5, asked)]
    refused = answer[:-2].replace(rows, row(0, -1, -1, b"\x00\x00", 29) * 3) + b"\x00\x00"
    with pytest.raises(ClusterProblem, match="the user lacks Describe on Topic t"):
        await client(Broker(refused)).committed("app", {"t": [0, 1, 2]})


async def test_commits_go_back_as_they_were_read() -> None:
    answer = b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x02"
    broker = Broker(answer + b"\x00\x00")
    await client(broker).commit("app", [("t", 0, 7, 2, "ab"), ("t", 2, 0, -1, "c\0")])
    rows = struct.pack(">iqi", 0, 7, 2) + b"\x00\x02ab" + struct.pack(">iqi", 2, 0, -1) + b"\x00\x02c\x00"
    head = b"\x00\x03app" + b"\xff\xff\xff\xff" + b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x02"
    assert broker.asked == [(5, 8, 6, head + rows)]
    for number, code in ((25, Code.GROUP_NOT_EMPTY), (30, Code.NOT_AUTHORISED)):
        with pytest.raises(ClusterProblem) as refused:
            await client(Broker(answer + struct.pack(">h", number))).commit("app", [("t", 2, 0, -1, "")])
        assert refused.value.code is code


async def test_a_group_is_found_in_the_list_with_its_type_and_protocol() -> None:
    def entry(*texts: str) -> bytes:
        return b"".join(bytes([len(text) + 1]) + text.encode() for text in texts) + b"\x00"

    rows = entry("other", "consumer", "Empty", "classic") + entry("app", "connect", "Stable", "classic")
    answer = b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x03" + rows + b"\x00"
    broker = Broker(answer)
    assert await client(broker).listed_group("app") == ("classic", "connect")
    # Any state, any type, no tags.
    assert broker.asked == [(5, 16, 5, b"\x01\x01\x00")]
    assert await client(Broker(b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x01" + b"\x00")).listed_group("app") is None


async def test_members_of_a_streams_group_are_told_by_their_clients() -> None:
    tasks = b"\x01\x01\x01\x00"  # no active, standby or warm-up tasks
    member = (
        text("m1") + struct.pack(">i", 2) + b"\x00" + b"\x00" + text("busy") + text("/host")
        + struct.pack(">i", 1) + text("p1") + b"\xff" + b"\x01" + b"\x01" + b"\x01" + tasks + tasks + b"\x00" + b"\x00"
    )  # fmt: skip
    group = (
        b"\x00\x00" + b"\x00" + text("app") + text("Stable") + struct.pack(">ii", 3, 3) + b"\xff" + b"\x02" + member
        + struct.pack(">i", -(2**31)) + b"\x00"
    )  # fmt: skip
    broker = Broker(b"\x00\x00\x00\x00" + b"\x02" + group + b"\x00")
    found = await client(broker).streams_group("app")
    assert found == StreamsGroup("Stable", [StreamsMember("m1", "busy", "/host", None, [])], [])
    assert broker.asked == [(5, 89, 0, b"\x02" + text("app") + b"\x00\x00")]


def text(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


async def test_the_parts_of_a_streams_group_are_told_with_whole_names_and_the_tasks_of_members() -> None:
    def topics(*names: str) -> bytes:  # each with partitions, replication and no configs
        return bytes([len(names) + 1]) + b"".join(text(n) + struct.pack(">ih", 2, 1) + b"\x01\x00" for n in names)

    part = text("0") + b"\x02" + text("in") + b"\x02" + text("app-x-repartition") + topics("app-s-changelog") + topics()
    topology = b"\x01" + struct.pack(">i", 1) + b"\x02" + part + b"\x00" + b"\x00"
    active = b"\x02" + text("0") + b"\x03" + struct.pack(">ii", 0, 1) + b"\x00"
    tasks = active + b"\x01\x01\x00" + b"\x01\x01\x01\x00"
    member = (
        text("m1") + struct.pack(">i", 2) + text("i1") + b"\x00" + text("busy") + text("/host")
        + struct.pack(">i", 1) + text("p1") + b"\xff" + b"\x01" * 3 + tasks + b"\x00" + b"\x00"
    )  # fmt: skip
    group = (
        b"\x00\x00" + b"\x00" + text("app") + text("Stable") + struct.pack(">ii", 3, 3) + topology + b"\x02" + member
        + struct.pack(">i", -(2**31)) + b"\x00"
    )  # fmt: skip
    found = await client(Broker(b"\x00\x00\x00\x00" + b"\x02" + group + b"\x00")).streams_group("app")
    assert found.members == [StreamsMember("m1", "busy", "/host", "i1", [("0", [0, 1])])]
    assert found.parts == [StreamsPart("0", ["in"], ["app-x-repartition"], ["app-s-changelog"], [])]


async def test_a_share_group_is_told_with_what_its_members_hold() -> None:
    held = b"\x02" + bytes(16) + text("t") + b"\x02" + struct.pack(">i", 3) + b"\x00"
    member = (
        text("m1") + b"\x00" + struct.pack(">i", 2) + text("busy") + text("/host") + b"\x02" + text("t")
        + held + b"\x00" + b"\x00"
    )  # fmt: skip
    group = (
        b"\x00\x00" + b"\x00" + text("app") + text("Stable") + struct.pack(">ii", 3, 3) + text("simple")
        + b"\x02" + member + struct.pack(">i", -(2**31)) + b"\x00"
    )  # fmt: skip
    broker = Broker(b"\x00\x00\x00\x00" + b"\x02" + group + b"\x00")
    state, [found] = await client(broker).share_group("app")
    assert (state, found) == ("Stable", ShareMember("m1", "busy", "/host", ["t"], {"t": [3]}))
    assert broker.asked == [(5, 77, 1, b"\x02" + text("app") + b"\x00\x00")]


async def test_start_offsets_of_a_share_group_are_told_where_it_has_them() -> None:
    rows = b"".join(struct.pack(">iqih", p, at, 0, 0) + b"\x00\x00" for p, at in ((0, 7), (1, -1)))
    topics = b"\x02" + text("t") + bytes(16) + b"\x03" + rows + b"\x00"
    group = text("app") + topics + b"\x00\x00" + b"\x00" + b"\x00"
    broker = Broker(b"\x00\x00\x00\x00" + b"\x02" + group + b"\x00")
    assert list(await client(broker).share_offsets("app")) == [("t", 0, 7)]
    assert broker.asked == [(5, 90, 0, b"\x02" + text("app") + b"\x00" + b"\x00" + b"\x00")]  # all topics


async def test_transactional_ids_come_with_their_producers_and_partitions_with_who_wrote() -> None:
    row = text("app-1") + struct.pack(">q", 9) + text("Ongoing") + b"\x00"
    ids = Broker(b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x01" + b"\x02" + row + b"\x00")
    assert await client(ids).transactional_ids() == {"app-1": 9}
    assert ids.asked == [(1, 66, 0, b"\x01\x01\x00")]
    rows = [(9, 0, 4, 1234, 0, -1), (8, 0, 4, 1235, -1, -1), (7, 0, 4, 1236, -1, 70)]
    told = b"".join(struct.pack(">qiiqiq", *row) + b"\x00" for row in rows)
    part = struct.pack(">ih", 3, 0) + b"\x00" + b"\x04" + told + b"\x00"
    writers = Broker(b"\x00\x00\x00\x00" + b"\x02" + text("t") + b"\x02" + part + b"\x00" + b"\x00")
    assert await client(writers).producers(1, {"t": [3]}) == [
        Producing("t", 3, 9, 1234, True), Producing("t", 3, 8, 1235, False), Producing("t", 3, 7, 1236, True)
    ]  # fmt: skip
    asked = b"\x02" + text("t") + b"\x02" + struct.pack(">i", 3) + b"\x00" + b"\x00"
    assert writers.asked == [(1, 61, 0, asked)]


@pytest.mark.parametrize(("error_code", "may_pass"), [(3, True), (5, True), (6, True), (9, True), (29, False)])
async def test_who_wrote_to_a_partition_that_is_led_elsewhere_by_now_may_be_asked_again(
    error_code: int, may_pass: bool
) -> None:
    part = struct.pack(">ih", 3, error_code) + b"\x00" + b"\x01" + b"\x00"
    broker = Broker(b"\x00\x00\x00\x00" + b"\x02" + text("t") + b"\x02" + part + b"\x00" + b"\x00")
    with pytest.raises(ClusterProblem) as caught:
        await client(broker).producers(1, {"t": [3]})
    assert caught.value.retriable == may_pass


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {8: (7, 10), 9: (6, 10), 16: (6, 6), 35: (2, 4), 47: (1, 1), 48: (1, 1), 49: (1, 1), 89: (1, 1)}
        | {61: (1, 1), 66: (1, 2), 77: (2, 2), 90: (1, 1)},
    ],
)
async def test_a_broker_that_does_not_know_the_version_is_not_asked(versions: dict[int, tuple[int, int]]) -> None:
    broker = Broker(b"", versions)
    for question in (
        client(broker).client_quotas("client-id"),
        client(broker).alter_client_quotas("client-id", {}),
        client(broker).log_sizes(1, "t", [0]),
        client(broker).delete_offsets("app", {"t": [0]}),
        client(broker).committed("app", {"t": [0]}),
        client(broker).commit("app", []),
        client(broker).listed_group("app"),
        client(broker).streams_group("app"),
        client(broker).share_group("app"),
        client(broker).share_offsets("app"),
        client(broker).transactional_ids(),
        client(broker).producers(1, {"t": [0]}),
    ):
        with pytest.raises(IncompatibleBrokerVersion):
            await question
    assert broker.asked == []


async def test_where_the_local_part_of_a_topic_begins_is_asked_of_its_leader() -> None:
    row = struct.pack(">ihqqi", 2, 0, -1, 700, 5) + b"\x00"
    broker = Broker(b"\x00\x00\x00\x00" + b"\x02" + text("in") + b"\x02" + row + b"\x00" + b"\x00")
    assert await client(broker).local_starts(3, "in", [2]) == {2: 700}
    # No replica, every record, any leader epoch, the earliest local offset in place of a time.
    asked = (
        struct.pack(">ib", -1, 0) + b"\x02" + text("in") + b"\x02" + struct.pack(">iiq", 2, -1, -4) + b"\x00\x00\x00"
    )
    assert broker.asked == [(3, 2, 8, asked)]


async def test_the_requests_that_brokers_answer_are_those_of_their_connections() -> None:
    broker = Broker(b"\x00\x00" + b"\x00\x00\x00\x00")
    assert await client(broker).apis() == VERSIONS
    assert broker.asked == [(1, 18, 0, b"")]


class Coordinator:
    """Answers one request after the other, as broker 5; after each move it is the next one."""

    def __init__(self, *answers: bytes | KafkaError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[int, bytes]] = []
        self.nodes: list[int] = []
        self.lookups = 0

    async def coordinator_lookup(self, kind: int, key: str) -> int:
        assert (kind, key) == (1, "tid")  # of transactions
        self.lookups += 1
        return 4 + self.lookups

    async def send(self, node: int, request: Any, group: object = None) -> Any:
        assert group == ConnectionGroup.COORDINATION
        form = request.prepare(VERSIONS)
        self.asked.append((form.API_KEY, form.encode()))
        self.nodes.append(node)
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return form.RESPONSE_TYPE.decode(answer)


TAKEN = b"\x00\x00\x00\x00" + b"\x00\x00" + struct.pack(">qh", 9, 2)
ENDED = b"\x00\x00\x00\x00" + b"\x00\x00"
ADDED = b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + struct.pack(">ih", 3, 0)


async def _places() -> list[tuple[str, int]]:
    return [("t", 3)]


async def test_what_is_open_is_committed_by_a_transaction_without_records() -> None:
    busy = b"\x00\x00\x00\x00" + struct.pack(">hqh", 51, -1, -1)  # the transaction before is still being ended
    broker = Coordinator(busy, TAKEN, ADDED, ENDED)
    await RawClient(broker, "speak").commit_open("tid", 30_000, _places)
    take = 22, b"\x00\x03tid" + struct.pack(">i", 30_000)
    holder = b"\x00\x03tid" + struct.pack(">qh", 9, 2)
    add = 24, holder + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + struct.pack(">i", 3)
    assert broker.asked == [take, take, add, (26, holder + b"\x01")]
    assert broker.lookups == 1


async def test_what_was_begun_is_asked_for_until_it_is_answered() -> None:
    """By the same holder: another one would abort it."""
    refused = [ADDED[:-2] + struct.pack(">h", number) for number in (3, 14, 51)]
    passing = [ENDED[:-2] + struct.pack(">h", number) for number in (51, 14, 16, 15)]
    lost = [RequestTimedOutError(), NodeNotReadyError()]
    broker = Coordinator(TAKEN, *refused, lost[0], ADDED, *passing, lost[1], ENDED)
    await RawClient(broker, "speak").commit_open("tid", 30_000, _places)
    assert [key for key, _body in broker.asked] == [22, *[24] * 5, *[26] * 6]
    assert len(set(broker.asked)) == 3, "the same each time"
    assert broker.nodes == [5] * 5 + [6] * 4 + [7, 8, 9], "looked up again where it may have moved"


async def test_it_is_given_up_shortly_before_the_broker_would_abort_it() -> None:
    busy = ENDED[:-2] + struct.pack(">h", 51)
    broker = Coordinator(TAKEN, ADDED, busy)
    with pytest.raises(ClusterProblem) as refused:
        await RawClient(broker, "speak").commit_open("tid", 5_000, _places)
    assert refused.value.retriable
    unknown = ADDED[:-2] + struct.pack(">h", 3)
    with pytest.raises(ClusterProblem) as refused:
        await RawClient(Coordinator(TAKEN, unknown), "speak").commit_open("tid", 5_000, _places)
    assert refused.value.retriable, "a topic whose leader is not back yet"


async def test_a_partition_that_was_not_tried_does_not_hide_why() -> None:
    both = b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x02" + struct.pack(">ihih", 2, 55, 3, 29)
    with pytest.raises(ClusterProblem, match="Write on Topic t"):
        await RawClient(Coordinator(TAKEN, b"\x00\x00\x00\x00" + both), "speak").commit_open("tid", 30_000, _places)


async def test_where_nothing_is_chosen_the_id_is_only_taken() -> None:
    async def nothing() -> list[tuple[str, int]]:
        return []

    broker = Coordinator(TAKEN)
    await RawClient(broker, "speak").commit_open("tid", 30_000, nothing)
    assert [key for key, _body in broker.asked] == [22]


@pytest.mark.parametrize(
    ("number", "code", "retriable"), [(53, Code.NOT_AUTHORISED, False), (90, Code.CLUSTER_UNREACHABLE, True)]
)
async def test_a_marker_that_is_refused_says_whether_later_may_help(number: int, code: Code, retriable: bool) -> None:
    for answers in (
        [b"\x00\x00\x00\x00" + struct.pack(">hqh", number, -1, -1)],
        [TAKEN, ADDED[:-2] + struct.pack(">h", number)],
        [TAKEN, ADDED, b"\x00\x00\x00\x00" + struct.pack(">h", number)],
    ):
        with pytest.raises(ClusterProblem) as refused:
            await RawClient(Coordinator(*answers), "speak").commit_open("tid", 30_000, _places)
        assert (refused.value.code, refused.value.retriable) == (code, retriable)


def described(error: int, state: str, protocol: str) -> bytes:
    """The answer to a question for the description of the group app, which has no members."""
    texts = b"".join(struct.pack(">h", len(text)) + text.encode() for text in ("app", state, protocol, ""))
    return b"\x00\x00\x00\x01" + struct.pack(">h", error) + texts + b"\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("error", "state", "protocol", "found"),
    [
        (0, "Dead", "", None),
        (69, "", "", None),
        (0, "Stable", "connect", ("classic", "connect")),
        (0, "Empty", "consumer", ("classic", "consumer")),
    ],
)
async def test_brokers_that_do_not_list_types_of_groups_describe_them(
    error: int, state: str, protocol: str, found: tuple[str, str] | None
) -> None:
    before_3_8 = {**VERSIONS, 15: (0, 5), 16: (0, 4)}
    broker = Broker(described(error, state, protocol), before_3_8)
    assert await client(broker).listed_group("app") == found
    assert [(node, request) for node, request, _version, _bytes in broker.asked] == [(5, 15)]


async def test_a_group_that_the_user_may_not_describe_on_such_a_broker_is_not_one_that_does_not_exist() -> None:
    broker = Broker(described(30, "", ""), {**VERSIONS, 15: (0, 5), 16: (0, 4)})
    with pytest.raises(ClusterProblem, match="lacks Describe on Group app") as refused:
        await client(broker).listed_group("app")
    assert refused.value.code is Code.NOT_AUTHORISED
