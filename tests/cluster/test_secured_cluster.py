"""On three secured brokers: brokers and rights that go away and come back. No operator has to help afterwards (rows 28,
29 and 34 of docs/guarantees.md).

The table of ACLs is what is needed and no less: with it everything works, and without one of it both `doctor` and
errors name that one. All of it is one file, because a worker takes whole files and there shall be one cluster.
"""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.errors import ClusterProblem
from recoveryd.units.model import Output, Unit, UnitKind
from recoveryd.wire.acls import Role, look_acls, replay_acls, unit_acls
from recoveryd_jobs.contract import TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.topics import Topic
from recoveryd_sandbox.access import RECOVERYD
from recoveryd_sandbox.cluster import Cluster
from recoveryd_sandbox.users import Grant
from tests.builders.history import create_topics
from tests.cluster.replicas import await_whole, layout, move_leaders, start_all
from tests.cluster.rights import PASSWORD, await_missing, grants_of, make_user, own_needs, told, without
from tests.e2e.asking import await_progress, copied, lane_progress
from tests.e2e.case import NewCase
from tests.e2e.data import fill_plain
from tests.e2e.history import check_copy, snapshot
from tests.e2e.ledger import is_of_receipt
from tests.e2e.log_reader import read_log, whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults, pytest.mark.cluster]

GONE_S = 20.0  # the length of the fault itself: a broker is fenced after nine seconds without a heartbeat
BELOW_S = 10.0
IN_FLIGHT_MS = 2_000  # what was under way when a broker was killed
_SEEN_S = 60.0
_AT_ONCE = 4


def test_row_29_leaders_may_move_under_a_replay_that_is_exact_and_whose_target_is_replicated_like_the_source(
    stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=100)
    case.copying()
    for topic in (case.source, case.target, stack.receipts_topic):
        move_leaders(stack.bootstrap, topic)
    done = case.finish()
    assert done["attempt"] == 1
    replicas = {len(partition.replicas) for partition in layout(stack.bootstrap, case.target)}
    own = {
        len(p.replicas) for topic in (stack.receipts_topic, stack.control.topic) for p in layout(stack.bootstrap, topic)
    }
    assert (replicas, own) == ({3}, {3})


@pytest.mark.wide(
    "tests/cluster/test_secured_cluster.py::test_row_29_a_replay_goes_on_without_one_broker_waits_below_min_isr_and_goes_on_again"
)
@pytest.mark.usefixtures("whole_afterwards")
def test_row_28_brokers_restarted_one_after_the_other_do_not_disturb_a_replay(
    cluster: Cluster, stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=100)
    case.copying()
    for broker in cluster.brokers:
        broker.stop()
        start_all([broker])
        await_whole(stack.bootstrap, case.source, case.target, stack.receipts_topic)
    done = case.finish()
    # One, unless a busy machine takes longer to restart a broker than a transaction may last: then the attempt is lost.
    assert done["attempt"] <= 2


@pytest.mark.usefixtures("whole_afterwards")
def test_row_29_a_replay_goes_on_without_one_broker_waits_below_min_isr_and_goes_on_again(
    cluster: Cluster, stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=150)
    case.copying()
    before = lane_progress(stack, case.recovery)[-1][1]
    gone, next_one, _ = cluster.brokers
    gone.kill()
    killed_s = time.monotonic()
    await_progress(stack, case.recovery, before + 750, GONE_S)
    time.sleep(max(0.0, killed_s + GONE_S - time.monotonic()))
    next_one.kill()
    below_ms = int(1_000 * time.time())
    time.sleep(BELOW_S)
    back_ms = int(1_000 * time.time())
    start_all([gone, next_one])
    await_whole(stack.bootstrap, case.source, case.target, stack.receipts_topic)
    case.going_on()
    case.finish()
    lanes = chunks_by_lane(stack, case.recovery, below_ms + IN_FLIGHT_MS, back_ms)
    assert all(len(begun) <= 1 for begun in lanes.values()), f"chunks below min ISR, by lane: {lanes}"


def chunks_by_lane(stack: Stack, recovery: str, after_ms: int, before_ms: int) -> Mapping[int, set[int]]:
    """The chunks whose receipts a lane wrote in this time, by its clock, which is that of the test. One may have waited
    for its commit until there were enough replicas again, and no other could begin before.
    """
    found: dict[int, set[int]] = defaultdict(set)
    for records in read_log(stack.bootstrap, stack.receipts_topic).values():
        for receipt in (json.loads(r.value) for r in records if r.value is not None and is_of_receipt(r.key)):
            if receipt["recovery"] == recovery and after_ms <= receipt["written_ms"] < before_ms:
                found[receipt["lane"]].add(receipt["chunk"])
    return found


@pytest.mark.wide("tests/e2e/test_two_secured.py::test_a_copy_to_the_other_cluster_is_exact_and_proved")
def test_a_replay_from_the_secured_cluster_to_a_plain_one_gets_that_ones_replicas(
    stack: Stack, bootstrap: str, source: str
) -> None:
    target = f"{stack.mark}-elsewhere"
    stack.control.replay("elsewhere", source, target, target_cluster="plain", target_create=True)
    done = stack.completed("elsewhere", 120)
    assert done["verification"]["result"] == "match"
    found = check_copy(
        bootstrap, source, target, stack.receipts_topic, "elsewhere", whole_log(stack.bootstrap, source),
        status=done, source_was=snapshot(stack.bootstrap, source),
    )  # fmt: skip
    assert found == []
    assert {len(partition.replicas) for partition in layout(bootstrap, target)} == {1}


def test_each_right_of_the_table_that_a_user_lacks_is_named_and_no_other(cluster: Cluster, stack: Stack) -> None:
    """The user has no rights for `topics apply`, whose prefix would cover some of the others. Transactional ids cannot
    be asked about, so `doctor` tries one.
    """
    needs = own_needs(stack, Role.DAEMON, Role.JOBS)
    every = list(dict.fromkeys(grants_of(needs)))
    users = {
        told(grant): make_user(cluster, f"no-{number}", [g for g in every if g != grant])
        for number, grant in enumerate(every)
        if grant.resource != "transactional_id"
    }

    users["nothing"] = make_user(cluster, "all", every)

    def await_named(lacks: str) -> None:
        named = lacks.replace("Group recoveryd", f"Group recoveryd.{stack.prefix.rstrip('.')}")
        await_missing(stack, users[lacks], needs, [named] if lacks != "nothing" else [], _SEEN_S)

    assert len(users) > 15
    with ThreadPoolExecutor(_AT_ONCE) as asking:
        list(asking.map(await_named, users))


def test_doctor_names_what_is_missing_for_recoveryd_and_for_one_replay(
    cluster: Cluster, stack: Stack, tmp_path: Path
) -> None:
    topic = f"x{stack.mark}-unseen"
    create_topics(stack.bootstrap, {topic: 1})
    taken = Grant("topic", stack.receipts_topic, "literal", "write")
    granted = grants_of(own_needs(stack, Role.DAEMON, Role.JOBS))
    client = make_user(cluster, "examined", [g for g in granted if g != taken and g.resource != "transactional_id"])
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    config = yaml.safe_load(stack.write_config("doctor").read_text())
    config["clusters"]["main"]["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{client["sasl.username"]}" password="${{file:{password}}}";'
    )
    file = tmp_path / "examined.yaml"
    file.write_text(yaml.safe_dump(config))
    await_missing(stack, client, own_needs(stack, Role.DAEMON, Role.JOBS), [told(taken)], _SEEN_S)
    done = subprocess.run(
        [sys.executable, "-c", "from recoveryd.cli import main; main()", "doctor", "--config", str(file), "--source", topic, "-o", "json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    acls, writes = rows["ACLs on main"], rows["write to main"]
    assert (done.returncode, acls["verdict"], writes["verdict"]) == (1, "fail", "fail")
    wanted = {told(taken), f"Read on Topic {topic}", f"DescribeConfigs on Topic {topic}"}
    assert {text for text in wanted if text in acls["found"]} == wanted, acls
    assert "the user lacks Write on TransactionalId recoveryd." in writes["found"]


def test_a_replay_that_lacks_one_of_its_rights_copies_nothing_and_names_it(cluster: Cluster, stack: Stack) -> None:
    wanted: dict[str, str] = {}
    for number, (side, operation) in enumerate(
        (a.name, o) for a in replay_acls("source", "target", create=True) for o in a.operations
    ):
        names = {"source": f"x{stack.mark}-source{number}", "target": f"x{stack.mark}-target{number}"}
        exists = operation != "Create"
        fill_plain(stack.bootstrap, names["source"], 1, 50)
        if exists:
            create_topics(stack.bootstrap, {names["target"]: 1})
        lacks = f"{operation} on Topic {names[side]}"
        granted = grants_of(replay_acls(names["source"], names["target"], create=not exists))
        cluster.users.grant(RECOVERYD, [g for g in granted if told(g) != lacks])
        wanted[f"acl{number}"] = f"the user lacks {lacks}"
    for recovery, lacks in wanted.items():
        number = recovery.removeprefix("acl")
        ends = f"x{stack.mark}-source{number}", f"x{stack.mark}-target{number}"
        stack.control.replay(recovery, *ends, target_create=" Create " in lacks)
    ended = {r: stack.follower.wait_state(r, {"rejected", "failed"}, 60) for r in wanted}
    assert {r: status["why"] for r, status in ended.items() if wanted[r] not in status["why"]} == {}
    assert {r: copied(stack, f"x{stack.mark}-target{r.removeprefix('acl')}") for r in wanted} == dict.fromkeys(
        wanted, 0
    )


def test_lanes_and_proof_that_may_not_read_a_topics_configs_say_so_instead_of_guessing(
    cluster: Cluster, stack: Stack, source: str
) -> None:
    client = make_user(cluster, "no-configs", [Grant("topic", source, "literal", "read")])
    lacks = f"DescribeConfigs on Topic {source}"
    needs = [acl for acl in replay_acls(source, "", create=False) if acl.name]
    await_missing(stack, client, needs, [lacks], _SEEN_S)
    spec = TargetSpec(cluster="main", topic=source, topic_id="", partitions=1, client=client)
    with pytest.raises(JobError, match=f"the user lacks {lacks}"):
        Topic(spec, "target", "c").settings(0.0)


def test_each_plan_of_a_unit_needs_the_rights_to_look_at_its_topics_and_names_the_one_that_lacks(
    cluster: Cluster, stack: Stack
) -> None:
    group, names = f"x{stack.mark}-app", [f"x{stack.mark}-{kind}" for kind in ("in", "out", "between", "app-state")]
    read, written, between, internal = names
    create_topics(stack.bootstrap, dict.fromkeys(names, 1))
    unit = Unit(
        "app", UnitKind.STREAMS, "main", group, (read,),
        outputs={written: Output()}, intermediate=(between,), internal_topics=(internal,),
    )  # fmt: skip
    needs = [*(acl for name in names for acl in look_acls(name)), *unit_acls(group, internal, group)]
    every = grants_of(acl for acl in needs if acl.when != "exactly once or not")
    lacking = {told(grant): grant for grant in every if grant.operation == "describe_configs"}
    users = {lacks: make_user(cluster, f"unit-{number}", [g for g in every if g != taken])
             for number, (lacks, taken) in enumerate({**lacking, "nothing": None}.items())}  # fmt: skip
    found: dict[str, str] = {}

    def is_named(lacks: str) -> bool:
        """ACLs come to each broker by themselves."""
        try:
            found[lacks] = f"topics: {sorted(read_unit(users[lacks], unit, [unit], 0).topics)}"
        except ClusterProblem as refused:
            found[lacks] = refused.message
        return found[lacks] == f"topics: {sorted(names)}" if lacks == "nothing" else f"lacks {lacks}" in found[lacks]

    assert len(lacking) == len(names)
    for lacks in users:
        wait_for(lambda lacks=lacks: is_named(lacks), _SEEN_S, lambda lacks=lacks: f"without {lacks}: {found}")


@pytest.mark.parametrize("side", [
    pytest.param("source", marks=pytest.mark.wide(
        "tests/cluster/test_secured_cluster.py::test_row_34_a_right_taken_away_in_the_middle_is_named_and_what_was_copied_is_sound"
    )),
    "receipts",
])  # fmt: skip
def test_row_34_a_right_taken_away_in_the_middle_is_named_and_what_was_copied_is_sound(
    cluster: Cluster, stack: Stack, new_case: NewCase, side: str
) -> None:
    case = new_case()
    if side == "source":
        case.source = f"x{stack.mark}-away"
        fill_plain(stack.bootstrap, case.source, 3, 3_000)
        cluster.users.grant(RECOVERYD, grants_of(a for a in replay_acls(case.source, "", create=False) if a.name))
        taken = Grant("topic", case.source, "literal", "read")
    else:
        taken = Grant("topic", stack.receipts_topic, "literal", "write")
    case.start(records_per_s=100)
    case.copying(100)
    with without(cluster, RECOVERYD, taken):
        ended = case.failed(120)
    assert told(taken) in ended["why"], ended["why"]
    case.judge_what_was_covered()
