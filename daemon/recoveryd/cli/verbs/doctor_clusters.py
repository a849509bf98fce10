"""What `recoveryctl doctor` asks brokers: are they there, do our topics fit, may we write, does the daemon answer, do
the clocks agree.

Each check returns what it found and none raises; a cluster that does not answer costs its own lines only. The write
probe is a transaction that is aborted, so no reader ever sees it.
"""

import asyncio
import time
from collections.abc import Iterator

from recoveryd.adapters.kafka.cluster_probe import identify
from recoveryd.adapters.kafka.own_topics import LEAD_NONE, TopicReport
from recoveryd.adapters.kafka.permissions import lacking
from recoveryd.adapters.kafka.platform_facts import read_versions
from recoveryd.cli.send.backend import Sent
from recoveryd.cli.send.command import make_record
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.verbs.doctor_checks import (
    CheckPatience,
    CheckResult,
    CheckVerdict,
    bad,
    doubtful,
    failed,
    good,
    skipped,
)
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.settings.model import SettingsModel
from recoveryd.units.features import judge_features
from recoveryd.wire.acls import Acl, Role, own_acls, replay_acls
from recoveryd.wire.topics import PARTITIONS, TopicNames

MAIN = "main"
_CLOCK_TOLERANCE_MS = 2_000
_NOBODY = "doctor-probe"
_MENDED = frozenset({PARTITIONS, LEAD_NONE})  # where each broker shall lead a partition


def check_clusters(
    connection: Connection,
    patience: CheckPatience,
    *,
    deep: bool,
    source: str | None = None,
    target: str | None = None,
) -> Iterator[CheckResult]:
    """For each cluster of the config: brokers, ACLs, topics, permission to write; with `deep` also the whole way of a
    command.

    `source` and `target` are topics of a replay that is planned, [CLUSTER:]TOPIC.
    """
    is_main_good = False
    for cluster in connection.settings.values.clusters:
        checks = _check_cluster(connection, cluster, _topic_on(cluster, source), _topic_on(cluster, target), patience)
        yield from checks
        is_main_good = is_main_good or (cluster == "main" and all(c.verdict is not CheckVerdict.FAIL for c in checks))
    if deep and is_main_good:
        yield from _check_way(connection, patience)
        return
    why = ("main is not good", "See above.") if deep else ("sends a command", "Look at it with --deep.")
    yield skipped("clock", *why)
    yield skipped("command", *why)


def _topic_on(cluster: str, place: str | None) -> str | None:
    """The topic of `[CLUSTER:]TOPIC` when it lies on this cluster."""
    named, _, topic = (place or "").rpartition(":")
    return topic if topic and (named or MAIN) == cluster else None


def _check_cluster(
    connection: Connection, cluster: str, source: str | None, target: str | None, patience: CheckPatience
) -> list[CheckResult]:
    name = f"brokers of {cluster}"
    try:
        found = identify(connection.settings.librdkafka(cluster), patience.cluster_s)
    except RecoverydError as error:
        step = "Check the address and that the broker runs; one that is slow may need a longer --timeout."
        told = failed(name, error, step if error.code is Code.CLUSTER_UNREACHABLE else "")
        left_out = (f"features of {cluster}", f"ACLs on {cluster}", f"topics on {cluster}", f"write to {cluster}")
        return [told, *(skipped(other, "needs the brokers", "See above.") for other in left_out)]
    counted = f"{found.brokers} broker" + ("s" if found.brokers != 1 else "")
    reached = good(name, f"{counted}, cluster id {found.cluster_id}, answered in {found.answered_ms:.0f} ms")
    acls = _check_acls(connection, cluster, source, target, patience)
    features = check_features(connection.settings.access(cluster), cluster, patience.cluster_s)
    return [reached, features, acls, *asyncio.run(_check_topics(connection, cluster))]


def check_features(access: ClientAccess, cluster: str, timeout_s: float) -> CheckResult:
    """What of Kafka's protocol its brokers say that they answer; nothing is concluded from their make or version."""
    name = f"features of {cluster}"
    try:
        rows = judge_features(read_versions(access, timeout_s))
    except RecoverydError as error:
        return failed(name, error)
    missing = [row for row in rows if not row.is_there]
    there = ", ".join(row.feature.name for row in rows if row.is_there)
    if not missing:
        return good(name, f"all {len(rows)}: {there}")
    told = "; ".join(f"{row.feature.name} ({', '.join(row.lacking)}): {row.feature.without}" for row in missing)
    found = f"has {there or 'none'}; lacks {told}"
    step = "Use another cluster for recoveries." if any(row.feature.is_needed for row in missing) else ""
    if step:
        return bad(name, found, step)
    return doubtful(name, found, "Nothing, if you can do without; `recoveryctl doctor features` has a line for each.")


async def _check_topics(connection: Connection, cluster: str) -> list[CheckResult]:
    name = f"topics on {cluster}"
    async with connection.clusters() as kafka:
        try:
            reports = await kafka.inspect_own_topics(cluster)
        except RecoverydError as error:
            return [failed(name, error), skipped(f"write to {cluster}", "needs the topics", "See above.")]
        topics = judge_topics(name, reports, str(connection.settings.librdkafka(cluster)["bootstrap.servers"]))
        if any(not report.exists and report.is_required for report in reports):
            return [
                topics,
                skipped(f"write to {cluster}", "needs the topics", topics.next_step),
            ]
        try:
            missing = {report.topic for report in reports if not report.exists}
            denied = await kafka.write_probe(connection.settings.values.scope, cluster, without=missing)
        except RecoverydError as error:
            return [topics, failed(f"write to {cluster}", error)]
        return [topics, _judge_writes(f"write to {cluster}", denied)]


def own_needs(names: TopicNames, values: SettingsModel, cluster: str) -> list[Acl]:
    """What daemon and jobs need on this cluster for any recovery, as the config stands."""
    places, features = {"target", "each"}, {""}
    if cluster == MAIN:
        places.add("main")
    if values.quotas.enabled:
        features.add("quotas.enabled")
    if values.monitor.is_canary_on and cluster in values.monitor.canary.clusters:
        places.add("canary")
        features.add("monitor.canary.clusters")
    return [
        acl
        for acl in own_acls(names)
        if {Role.DAEMON, Role.JOBS} & set(acl.roles) and acl.cluster in places and acl.when in features
    ]


def _check_acls(
    connection: Connection, cluster: str, source: str | None, target: str | None, patience: CheckPatience
) -> CheckResult:
    """What the cluster itself says this user may do, against what daemon and jobs need there."""
    name, values = f"ACLs on {cluster}", connection.settings.values
    needs = own_needs(connection.names, values, cluster)
    if source is not None:
        needs += [acl for acl in replay_acls(source, target or "", create=False) if acl.cluster == "source"]
    if target is not None:
        needs += [acl for acl in replay_acls(source or "", target, create=True) if acl.cluster == "target"]
    try:
        group = values.faust.group or f"recoveryd.{values.scope}"
        found = lacking(connection.settings.librdkafka(cluster), needs, group, patience.cluster_s)
    except RecoverydError as error:
        return failed(name, error)
    if found:
        return bad(
            name,
            f"{Code.NOT_AUTHORISED.value} Missing: {'; '.join(found)}.",
            "Grant them; docs/acls.md has the whole list.",
        )
    return good(name, f"{len(needs)} needs are granted")


def judge_topics(name: str, reports: tuple[TopicReport, ...], servers: str) -> CheckResult:
    """What was found of the own topics of a cluster whose brokers are at `servers`."""
    step = Code.OWN_TOPIC_MISSING.next_step
    missing = [report.topic for report in reports if not report.exists and report.is_required]
    if missing:
        return bad(name, f"Missing: {', '.join(missing)}.", step)
    differing = [(d, f"{d.topic}: {d.setting} is {d.found}, wanted {d.wanted}") for r in reports for d in r.differences]
    fatal = [text for difference, text in differing if difference.fatal]
    if fatal:
        return bad(name, "; ".join(fatal), Code.OWN_TOPIC_WRONG.next_step)
    wanted = [report.topic for report in reports if not report.exists]
    if wanted:
        return doubtful(name, f"Missing, needed to measure latency: {', '.join(wanted)}.", step)
    if differing:
        return doubtful(name, "; ".join(text for _, text in differing), _mend(reports, servers))
    return good(name, f"{len(reports)} topics as wanted")


def _mend(reports: tuple[TopicReport, ...], servers: str) -> str:
    """The next step for topics with differences that let the daemon start."""
    mends = [mend for r in reports if r.leaders is not None and (mend := r.leaders.mend(servers))]
    if not mends:
        return "Correct it when convenient."
    is_rest = any(d.setting not in _MENDED or r.leaders is None for r in reports for d in r.differences)
    rest = " Correct the rest when convenient." if is_rest else ""
    return f"So that the canary measures each broker: `{'; '.join(mends)}`.{rest}"


def _judge_writes(name: str, denied: dict[str, str | None]) -> CheckResult:
    problems = [why for why in denied.values() if why is not None]
    if problems:
        step = "Grant Write on these topics, and Write on TransactionalId with the prefix `recoveryd.`."
        return bad(name, "; ".join(problems), step)
    return good(name, f"{len(denied)} topics can be written in a transaction")


def _check_way(connection: Connection, patience: CheckPatience) -> Iterator[CheckResult]:
    """A command for a recovery that does not exist: sent, read, refused and answered."""
    name, started_ms = "command", _now_ms()
    sent: Sent | None = None
    try:
        record = make_record("pause", _NOBODY, {"reason": "recoveryctl doctor"}, connection.names)
        sent = connection.backend.send(record)
        yield judge_clock(sent.broker_ms, started_ms, _now_ms())
        _, answer = next(connection.backend.answers([sent], patience.answer_s), (sent, None))
    except RecoverydError as error:
        yield failed(name, error)
        if sent is None:
            yield skipped("clock", "no command was sent", "See above.")
        return
    if answer is None:
        step = "Look for the daemon and its log; it will refuse the command when it runs."
        yield bad(name, f"No daemon answered in {patience.answer_s:.0f} s.", step)
        return
    code = (answer.get("data") or {}).get("code")
    if code != Code.NO_SUCH_RECOVERY.value:
        yield doubtful(name, f"Answered with {code or 'yes'}, not as expected.", f"Look at `{_NOBODY}`.")
        return
    yield good(name, f"a command was read, refused as it should be, and answered after {_now_ms() - started_ms} ms")


def judge_clock(broker_ms: int | None, before_ms: int, after_ms: int) -> CheckResult:
    """Our clock against the broker's, which stamps control records; the sending itself is the tolerance."""
    name = "clock"
    if broker_ms is None:
        return skipped(name, "the broker did not stamp the record", "Check message.timestamp.type.")
    ahead_ms = max(before_ms - broker_ms, broker_ms - after_ms, 0)
    direction = "ahead of" if before_ms > broker_ms else "behind"
    if ahead_ms > _CLOCK_TOLERANCE_MS:
        step = "Set the clock by NTP: expirytime and durations back from now are judged by the broker's."
        return doubtful(name, f"{ahead_ms / 1000:.1f} s {direction} the broker's", step)
    return good(name, "agrees with the broker's")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
