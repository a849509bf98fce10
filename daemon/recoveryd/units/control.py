"""What is wanted of a unit's application, and what is seen of it: the words between workflows and those who stop and
start applications (the port `ApplicationControl`).

A wish is asked again until its report says that it is fulfilled, so all that a report needs to say is what to do next.
How a step of a workflow that waits for an application uses this, each time it is taken:

    since_ms = step.began_ms
    wish = Wish(unit, Desired.STOPPED, workflow.id, key=f"{workflow.id}/{step.name}/{since_ms}", since_ms=since_ms)
    report = await applications.ask(wish)

- `report.fulfils(wish.desired)`: it is done, as far as the application goes. A group can still have members then.
- `Needs.TIME`: not yet; ask again in a few seconds, with the same `key`, and with `was_told` once `report.evidence`
  had it under `TOLD`, which is journaled for the next daemon.
- `Needs.ACK`: not yet, and a person has to say so (`control: manual`).
- `Needs.MENDING`: it failed, `why` says of what. A person who mended it and wants it tried again is a new wish, with
  another `key` and `since_ms`.

Before the step that stops, `before = (await applications.look(unit)).before` is journaled, of the first look whose
state is not `UNKNOWN`, which says nothing, and given to the wishes of both steps: so that what ran on another machine
is not taken for stopped, and that there are as many instances after the start as there were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

# In the evidence of a report: whether what was to end did so in its time (True), or was killed (False).
ENDED_CLEANLY: Final = "ended_cleanly"
# In the evidence of a report: the key of the wish for which whoever does it was told to start it.
TOLD: Final = "told"


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class ApplicationState(StrEnum):
    """`UNKNOWN` is never taken for one of the others: nobody could be asked, or the answer said nothing."""

    RUNNING = "running"
    STOPPED = "stopped"
    CHANGING = "changing"
    UNKNOWN = "unknown"


class Needs(StrEnum):
    """What is still missing until a wish is fulfilled."""

    NOTHING = "nothing"
    TIME = "time"  # ask again
    ACK = "ack"  # a person does it and says so
    MENDING = "mending"  # asking again will not help before a person changed something


@dataclass(frozen=True, slots=True)
class Wish:
    """`workflow` is the id of the run that asks. `key` is the same however often one wish is asked and by whichever
    daemon, and another for the next wish. `since_ms` is when it was first journaled. `before` is what the last report
    under `before` told ahead of the stop, so that a start can put it back: look and journal it before asking.
    `may_restart`: what failed when it was started may be started once more for this wish. `was_told`: some report for
    this very wish said that it was told, maybe one that an earlier daemon got.
    """

    unit: str
    desired: Desired
    workflow: str
    key: str
    since_ms: int
    before: Mapping[str, Any] = field(default_factory=dict)
    may_restart: bool = True
    was_told: bool = False

    @property
    def may_tell(self) -> bool:
        """Whether a daemon that told nobody may do so: a start that was told, and undone by somebody since, would be a
        second one.
        """
        return self.desired is Desired.STOPPED or self.may_restart or not self.was_told

    def waited_ms(self, now_ms: int, told_ms: int | None) -> int:
        """For how long it was waited. `told_ms`: when this daemon told who does it, None = it did not. A start counts
        from there: the daemon before may have been gone for long, and what is late to start is taken for failed.
        """
        since_ms = self.since_ms
        if told_ms is not None and self.desired is Desired.RUNNING:
            since_ms = max(since_ms, told_ms)
        return now_ms - since_ms


@dataclass(frozen=True, slots=True)
class Report:
    """`why` is one sentence. `evidence` and `before` hold plain values only, and never a secret."""

    unit: str
    state: ApplicationState
    why: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    needs: Needs = Needs.NOTHING

    def fulfils(self, desired: Desired) -> bool:
        return self.state.value == desired.value

    def having_told(self, wish: Wish) -> "Report":
        """For what the next daemon has to know of a start."""
        return self if wish.desired is Desired.STOPPED else replace(self, evidence={**self.evidence, TOLD: wish.key})

    def in_time(self, wish: Wish, waited_ms: int, limit_ms: int) -> "Report":
        """It needs more time, or, after all that it has for this wish, mending."""
        if waited_ms < limit_ms:
            return replace(self, needs=Needs.TIME)
        why = f"{self.why}, {waited_ms / 1000:.0f} s after {wish.desired.value} was wanted"
        return replace(self, why=why, needs=Needs.MENDING)
