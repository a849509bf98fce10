"""What `verify` asks for: compare a range of one topic with the copy in another one. Nothing is written."""

from dataclasses import dataclass, field

from recoveryd.kernel.commands import Meta
from recoveryd.recovery.spec import From, Latest, Limits, SourceRef, To


@dataclass(frozen=True, slots=True)
class ComparedRef:
    """A target that is only read. `start` None = the source's bound, applied to this topic."""

    topic: str
    cluster: str = "main"
    start: From | None = None
    mapping: str = "same"  # same | key_hash: in which partition a record of the source must be
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerificationSpec:
    """Compare a range of the source with the target, whoever made it. `compare`: every record, or the last value of
    each key.
    """

    source: SourceRef
    target: ComparedRef
    limits: Limits = field(default_factory=Limits)
    dry_run: bool = False
    plan_hash: str | None = None
    compare: str = "records"  # records | latest
    profile: str = "default"

    kind = "verification"
    copies = False
    appends = True
    on_data_loss = "continue"
    verify = "source"

    @property
    def target_bounds(self) -> tuple[From, To]:
        """The bounds of the target; planning resolves them, because no receipts say where the copy lies."""
        return self.target.start or self.source.start, Latest()


@dataclass(frozen=True, slots=True)
class Verify:
    meta: Meta
    spec: VerificationSpec
    verb = "verify"
