"""What `decide` returns: the new state, what the journal must hold, and what to do after it holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.directive import Directive
from daemon.core.effects import Effect
from daemon.core.events import ControlUnreadable
from daemon.core.model import DaemonRecord, Recovery
from daemon.core.observed import Forgetting, Observed, SampleHistory
from daemon.core.protecting import Protecting
from daemon.core.quota_book import QuotaBook
from daemon.core.recoveries import Recoveries
from daemon.core.watches.known import Watches
from daemon.core.watches.model import Watch

__all__ = ["Answer", "CoreState", "Decision", "Directive", "Notice"]  # a directive is one of the records of a decision


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer to a control record: `kind` is accepted | rejected | duplicate | expired."""

    kind: str
    verb: str
    command_id: str
    subject: str
    code: str
    message: str
    hint: str
    control_offset: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact for the events topic: `type` is the short name (`recovery_paused`), the wire makes the full CloudEvents type `io.recoveryd.event.<type>.v1`."""

    type: str
    subject: str
    data: Mapping[str, object]
    causation_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`changed` recoveries, changed `watches` and, if not None, `daemon` go to the status topic. All kinds of records go into one transaction, then `effects` run.

    An empty decision (nothing to journal) costs no transaction; its effects (only WakeAt, GatherFacts retries) may run at once.
    """

    state: "CoreState"
    reason: str = ""
    changed: tuple[Recovery, ...] = ()
    forgotten: tuple[str, ...] = ()  # recoveries whose records go from the compacted topics
    watches: tuple[Watch, ...] = ()
    daemon: DaemonRecord | None = None
    answers: tuple[Answer, ...] = ()
    notices: tuple[Notice, ...] = ()
    directives: tuple[Directive, ...] = ()
    dead_letters: tuple[ControlUnreadable, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def needs_journal(self) -> bool:
        return bool(
            self.changed
            or self.forgotten
            or self.watches
            or self.daemon
            or self.answers
            or self.notices
            or self.directives
            or self.dead_letters
        )


@dataclass(frozen=True, slots=True)
class CoreState:
    """All the core knows. `recoveries` and `daemon` are journaled; `observed` (of live ones) is soft (heartbeats, samples) and rebuilt from the world after a restart."""

    recoveries: Recoveries = field(default_factory=Recoveries)
    daemon: DaemonRecord = DaemonRecord()
    observed: Mapping[str, Observed] = field(default_factory=dict)
    samples: Mapping[tuple[str, str], SampleHistory] = field(default_factory=dict)
    quotas: QuotaBook = QuotaBook()
    protecting: Protecting = Protecting()
    watches: Watches = Watches()
    forgetting: Forgetting = Forgetting()
