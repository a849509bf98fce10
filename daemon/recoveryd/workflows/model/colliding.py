"""Names that Kafka does not let stand side by side: in those of its metrics a dot is an underscore, so it makes no
topic whose name differs from that of another one by these only.

A plan that is to make topics asks before anything is stopped for it: the broker says so only when it is asked to make
them.
"""

from collections.abc import Iterable, Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused

Names = Mapping[str, frozenset[str]]  # of topics, by what they are called in metrics


def names_of(topics: Iterable[str]) -> Names:
    found: dict[str, frozenset[str]] = {}
    for topic in topics:
        found[_in_metrics(topic)] = found.get(_in_metrics(topic), frozenset()) | {topic}
    return found


def is_there(topic: str, names: Names) -> bool:
    return topic in names.get(_in_metrics(topic), ())


def refuse_collision(topics: Iterable[str], names: Names) -> Refused | None:
    """Of topics that are to be made, beside those whose `names` are taken; one that is there already is not made."""
    made: dict[str, str] = {}
    for topic in topics:
        if is_there(topic, names):
            continue
        other = min(names.get(_in_metrics(topic), ()), default=made.setdefault(_in_metrics(topic), topic))
        if other != topic:
            message = f"{topic} cannot be made beside {other}: to Kafka, names that differ by . and _ only are the same"
            return Refused(Code.INVALID_VALUE, message, "Choose another name.")
    return None


def _in_metrics(topic: str) -> str:
    return topic.replace(".", "_")
