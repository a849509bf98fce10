"""What other capabilities ask: who holds a topic, and the refusal that names the hold, its owner and the reason.

Anything that writes to a topic, deletes it, or sets positions of a group there asks `refuse_held` before it begins and
again before each step that cannot be taken back.
"""

from collections.abc import Iterable

from recoveryd.holds.known import HeldBy, Holds, Topic
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused


def holder_of(holds: Holds, topic: Topic) -> HeldBy | None:
    """The oldest hold on the topic, for something that writes or resets there."""
    found = holds.held.get(topic)
    return found[0] if found else None


def reading_holder_of(holds: Holds, topic: Topic) -> HeldBy | None:
    """The oldest hold on the topic that keeps recoveries from reading it too."""
    return next((by for by in holds.held.get(topic, ()) if by.reads), None)


def say_held(topic: str, by: HeldBy) -> str:
    """The sentence that names the hold, who placed it and why."""
    return f"{topic} is held by {by.hold} of {by.owner}: {by.reason}"


def refuse_held(holds: Holds, written: Iterable[Topic], read: Iterable[Topic] = ()) -> Refused | None:
    """Why nothing may be written to or reset in the topics `written`, or copied from the topics `read`; None = it may.
    Each topic is a cluster and a name.
    """
    if not holds.held:
        return None
    for topics, ask in ((written, holder_of), (read, reading_holder_of)):
        for topic in topics:
            by = ask(holds, topic)
            if by is not None:
                hint = f"`recoveryctl describe {by.hold}` shows it; try again once it is released."
                return Refused(Code.TOPIC_HELD, say_held(topic[1], by), hint)
    return None
