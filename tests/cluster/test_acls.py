"""The table of ACLs is what is needed and no less: with it everything works (the other tests here), and without one of it both `doctor` and errors name that one.

Row 34 too: a right taken away in the middle ends a replay with the exact reason, and what was copied is sound.
"""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from daemon.adapters.permissions import lacking
from daemon.wire.acls import Acl, Resource, Role, replay_acls
from sandbox.access import RECOVERYD
from sandbox.cluster import Cluster
from sandbox.users import Grant
from tests.builders.history import create_topics
from tests.cluster.conftest import NewCase, grants_of, needed
from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.timeout(280)]

PROBE = "probe"
_SEEN_S = 20.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def probe(cluster: Cluster, stack: Stack) -> dict[str, str]:
    """A user of its own with exactly the table, so that nothing else breaks when it loses a right."""
    cluster.users.set_password(PROBE, "of-a-test")
    cluster.users.grant(PROBE, (grant for acl in running(stack) for grant in grants_of(acl)))
    client = {**cluster.client(RECOVERYD), "sasl.username": PROBE, "sasl.password": "of-a-test"}
    wait_for(lambda: missing(stack, client) == [], _SEEN_S, lambda: f"missing: {missing(stack, client)}")
    return client


def running(stack: Stack) -> list[Acl]:
    """Without the rights of `topics apply`, whose prefix would cover some of the others."""
    return [acl for acl in needed(stack) if Role.SETUP not in acl.roles]


def missing(stack: Stack, client: dict[str, str]) -> list[str]:
    needs = [acl for acl in running(stack) if not acl.prefixed or acl.resource is Resource.GROUP]
    return lacking(client, needs, f"recoveryd.{stack.prefix.rstrip('.')}")


def test_each_right_of_the_table_that_is_taken_away_is_named(
    cluster: Cluster, stack: Stack, probe: dict[str, str]
) -> None:
    literal = [acl for acl in running(stack) if not acl.prefixed]
    every = dict.fromkeys((grant, acl) for acl in literal for grant in grants_of(acl))
    named: dict[str, list[str]] = {}
    for grant, acl in every:
        cluster.users.take_away(PROBE, [grant])
        wanted = f"{words(grant)} on {acl.resource.value} {acl.name}"
        wait_for(lambda wanted=wanted: wanted in missing(stack, probe), _SEEN_S, lambda wanted=wanted: wanted)
        named[wanted] = missing(stack, probe)
        cluster.users.grant(PROBE, [grant])
        wait_for(lambda: missing(stack, probe) == [], _SEEN_S)
    assert named == {wanted: [wanted] for wanted in named}
    assert len(named) >= 15


def test_doctor_names_what_is_missing_for_recoveryd_and_for_one_replay(
    cluster: Cluster, stack: Stack, probe: dict[str, str], tmp_path: Path
) -> None:
    topic = f"x{stack.mark}-unseen"
    create_topics(stack.bootstrap, {topic: 1})
    taken = Grant("topic", stack.receipts_topic, "literal", "write")
    password = tmp_path / "password"
    password.write_text("of-a-test")
    config = yaml.safe_load(stack.write_config("doctor", 0).read_text())
    main = config["clusters"]["main"]
    main["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{PROBE}" password="${{file:{password}}}";'
    )
    file = tmp_path / "probe.yaml"
    file.write_text(yaml.safe_dump(config))
    cluster.users.take_away(PROBE, [taken])
    try:
        wait_for(lambda: missing(stack, probe), _SEEN_S)
        done = subprocess.run(
            [sys.executable, "-c", "from daemon.cli import main; main()", "doctor", "--config", str(file), "--source", topic, "-o", "json"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        cluster.users.grant(PROBE, [taken])
    assert done.stdout, done.stderr
    [line] = [row for row in json.loads(done.stdout) if row["check"] == "ACLs on main"]
    assert done.returncode == 1
    assert line["verdict"] == "fail"
    wanted = {f"Write on Topic {stack.receipts_topic}", f"Read on Topic {topic}", f"DescribeConfigs on Topic {topic}"}
    assert {text for text in wanted if text in line["found"]} == wanted, line


def test_a_replay_without_one_of_its_rights_ends_with_the_name_of_that_right(cluster: Cluster, stack: Stack) -> None:
    wanted: dict[str, str] = {}
    for acl in replay_acls("source", "target", create=True):
        for operation in acl.operations:
            number = next(_numbers)
            names = {"source": f"x{stack.mark}-source{number}", "target": f"x{stack.mark}-target{number}"}
            exists = operation != "Create"
            fill_plain(stack.bootstrap, names["source"], 1, 50)
            if exists:
                create_topics(stack.bootstrap, {names["target"]: 1})
            granted = [replace(a, name=names[a.name]) for a in replay_acls("source", "target", create=not exists)]
            without = [g for a in granted for g in grants_of(a) if (a.name, words(g)) != (names[acl.name], operation)]
            cluster.users.grant(RECOVERYD, without)
            recovery = f"acl{number}"
            wanted[recovery] = f"lacks {operation} on Topic {names[acl.name]}"
            stack.control.replay(recovery, names["source"], names["target"], target_create=not exists)
    found = {}
    for recovery in wanted:
        ended = stack.follower.wait_state(recovery, {"rejected", "failed"}, 120)
        found[recovery] = ended["why"]
    assert {r: wanted[r] for r in wanted if wanted[r] not in found[r]} == {}, found


@pytest.mark.parametrize("side", ["source", "receipts"])
def test_row_34_a_right_taken_away_in_the_middle_is_named_and_what_was_copied_is_sound(
    cluster: Cluster, stack: Stack, new_case: NewCase, side: str
) -> None:
    case = new_case()
    if side == "source":
        case.source = f"x{stack.mark}-away"
        fill_plain(stack.bootstrap, case.source, 3, 3_000)
        [acl] = (a for a in replay_acls(case.source, "", create=False) if a.cluster == "source")
        cluster.users.grant(RECOVERYD, grants_of(acl))
        taken, name = Grant("topic", case.source, "literal", "read"), f"Read on Topic {case.source}"
    else:
        taken, name = Grant("topic", stack.receipts_topic, "literal", "write"), f"Write on Topic {stack.receipts_topic}"
    case.start(records_per_s=300)
    case.copying(300)
    cluster.users.take_away(RECOVERYD, [taken])
    try:
        ended = case.failed(120)
    finally:
        cluster.users.grant(RECOVERYD, [taken])
    assert name in ended["why"], ended["why"]
    case.judge_what_was_covered()


def words(grant: Grant) -> str:
    """`describe_configs` as `DescribeConfigs`."""
    return "".join(part.capitalize() for part in grant.operation.split("_"))
