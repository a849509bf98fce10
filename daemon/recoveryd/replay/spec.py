"""What `replay` asks for: copy a range of one topic into another one."""

from dataclasses import dataclass, field

from recoveryd.kernel.commands import Meta
from recoveryd.recovery.spec import Limits, SourceRef


@dataclass(frozen=True, slots=True)
class TargetRef:
    topic: str
    cluster: str = "main"
    create: bool = False
    on_existing: str = "refuse"  # refuse | append
    mapping: str = "same"  # same | key_hash
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()
    topic_id: str | None = None  # a topic of this name with another id is refused


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    source: SourceRef
    target: TargetRef
    limits: Limits = field(default_factory=Limits)
    dry_run: bool = False
    plan_hash: str | None = None
    on_data_loss: str = "fail"  # fail | continue
    verify: str = "source"  # source | digest | count | none
    profile: str = "default"

    kind = "replay"
    copies = True
    target_bounds = None

    @property
    def appends(self) -> bool:
        return self.target.on_existing == "append"


@dataclass(frozen=True, slots=True)
class Replay:
    meta: Meta
    spec: ReplaySpec
    verb = "replay"
