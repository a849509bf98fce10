"""What is found about the target before anything is written: settings that would refuse, change or delete the copy.

A finding of severity error refuses the plan, because the copy could not be exact; a warning is shown and stored.
Settings have Kafka's own names.
"""

from collections.abc import Mapping

from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.recovery.model import Finding, Severity
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts
from recoveryd.replay.spec import ReplaySpec

BROKER_DEFAULT = -1
_MOST_BYTES = 2**31 - 1


def created_configs(source: Mapping[str, str], largest_record_bytes: int | None) -> dict[str, str]:
    """Configs of a target that recoveryd creates. The limit of the source counts its batches as they are compressed
    there, and lanes may compress less: so there is room for records twice as large as the largest one that was seen.
    """
    configs = dict(AS_WRITTEN)
    if "max.message.bytes" in source:
        room = max(int(source["max.message.bytes"]), 2 * (largest_record_bytes or 0))
        configs["max.message.bytes"] = str(min(room, _MOST_BYTES))
    return configs


def created_replicas(spec: ReplaySpec, source: TopicFacts) -> int:
    """Replicas of a target that recoveryd creates: as many as the source has; on another cluster, that cluster's
    default (-1).

    Another cluster may have too few brokers for the source's number, or that number may be too low for its
    `min.insync.replicas`.
    """
    return source.replication_factor if spec.source.cluster == spec.target.cluster else BROKER_DEFAULT


def inspect_target(spec: ReplaySpec, facts: PlanFacts) -> tuple[Finding, ...]:
    """Findings about an existing target, worst first; none for one that is still to be created."""
    target, source = facts.target, facts.source
    if target is None or source is None:
        return ()
    found = [
        _compaction(target, source),
        *_retention(target, facts),
        *_timestamps(target, facts),
        *_message_size(target, source, facts),
        _width(spec, target, source),
    ]
    order = {Severity.ERROR: 0, Severity.WARN: 1, Severity.INFO: 2}
    return tuple(sorted((f for f in found if f), key=lambda f: order[f.severity]))


def _compaction(target: TopicFacts, source: TopicFacts) -> Finding | None:
    if "compact" not in target.configs.get("cleanup.policy", "delete"):
        return None
    if "compact" in source.configs.get("cleanup.policy", "delete"):
        return Finding(
            "target_compacted",
            Severity.WARN,
            f"{target.topic} is compacted: the broker may remove records of the copy before they are verified",
        )
    return Finding(
        "target_compacted",
        Severity.ERROR,
        (
            f"{target.topic} is compacted and {source.topic} is not: records without a key would be refused and "
            "repeated keys removed"
        ),
    )


def _retention(target: TopicFacts, facts: PlanFacts) -> list[Finding]:
    found = []
    retention_ms = _number(target, "retention.ms", -1)
    timed_by_producer = target.configs.get("message.timestamp.type", "CreateTime") == "CreateTime"
    deletes = "delete" in target.configs.get("cleanup.policy", "delete")
    if deletes and retention_ms >= 0 and timed_by_producer:
        oldest = facts.oldest_record_ms
        if oldest is not None and oldest >= 0 and facts.gathered_at_ms - oldest > retention_ms:
            found.append(
                Finding(
                    "target_retention",
                    Severity.ERROR,
                    f"{target.topic} deletes records older than {_span(retention_ms)} and the range "
                    "begins with records "
                    f"{_span(facts.gathered_at_ms - oldest)} old: they would vanish within minutes of landing",
                )
            )
        else:
            found.append(
                Finding(
                    "target_retention",
                    Severity.WARN,
                    f"{target.topic} keeps records for {_span(retention_ms)} of their own time only",
                )
            )
    if deletes and _number(target, "retention.bytes", -1) >= 0:
        size = target.configs["retention.bytes"]
        found.append(
            Finding("target_retention_bytes", Severity.WARN, f"{target.topic} keeps at most {size} bytes per partition")
        )
    return found


def _timestamps(target: TopicFacts, facts: PlanFacts) -> list[Finding]:
    if target.configs.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
        return [
            Finding(
                "target_log_append_time",
                Severity.WARN,
                (
                    f"{target.topic} stamps records with the time they land "
                    "(message.timestamp.type=LogAppendTime): their own time is not kept"
                ),
            )
        ]
    before_ms = _number(target, "message.timestamp.before.max.ms", 2**63 - 1)
    oldest = facts.oldest_record_ms
    if oldest is not None and facts.gathered_at_ms - oldest > before_ms:
        message = f"{target.topic} refuses records older than {_span(before_ms)} (message.timestamp.before.max.ms)"
        return [Finding("target_timestamp_limits", Severity.ERROR, message)]
    return []


def _message_size(target: TopicFacts, source: TopicFacts, facts: PlanFacts) -> list[Finding]:
    allowed = _number(target, "max.message.bytes", 2**31 - 1)
    largest = facts.largest_record_bytes
    if largest is not None and largest > allowed:
        message = (
            f"{target.topic} takes records up to {allowed} bytes (max.message.bytes); one of {largest} was "
            "seen in the source"
        )
        return [Finding("target_max_message_bytes", Severity.ERROR, message)]
    if allowed < _number(source, "max.message.bytes", 0):
        message = f"{target.topic} takes smaller records than {source.topic} may hold (max.message.bytes {allowed})"
        return [Finding("target_max_message_bytes", Severity.WARN, message)]
    return []


def _width(spec: ReplaySpec, target: TopicFacts, source: TopicFacts) -> Finding | None:
    if target.partitions == source.partitions:
        return None
    how = (
        "keys keep their partition number, not Kafka's own placing"
        if spec.target.mapping == "same"
        else "keys are placed by murmur2"
    )
    return Finding(
        "target_partitions",
        Severity.WARN,
        f"{target.topic} has {target.partitions} partitions, {source.topic} has {source.partitions}: {how}",
    )


def _number(topic: TopicFacts, name: str, default: int) -> int:
    try:
        return int(topic.configs.get(name, default))
    except ValueError:
        return default


def _span(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms} ms"
