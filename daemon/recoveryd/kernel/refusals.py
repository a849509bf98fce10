"""Refusals that several capabilities give, each in the same words. What only one of them refuses is said there."""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name


def id_in_use(kind: str, noun_id: str, state: str) -> Refused:
    return Refused(Code.ID_IN_USE, f"{kind} {noun_id} exists already and is {state}")


def not_in_this_state(verb: str, noun_id: str, state: str) -> Refused:
    return Refused(Code.NOT_IN_THIS_STATE, f"{verb} is not possible while {noun_id} is {state}")


def refuse_cluster(cluster: str, known: frozenset[str], field: str = "cluster") -> Refused | None:
    """Of one that the config does not have. `field`: of the command's data."""
    if cluster in known:
        return None
    message = f"{field}: the config has no cluster {cluster!r}"
    return Refused(Code.UNKNOWN_CLUSTER, message, nearest_name(cluster, known))


def internal_topic(topic: str, field: str = "topics") -> Refused:
    return Refused(Code.INTERNAL_TOPIC, f"{field}: {topic} is an internal topic")


def too_many(code: Code, what: str, active: int, most: int) -> Refused:
    return Refused(code, f"{active} {what} are active, at most {most} can be")
