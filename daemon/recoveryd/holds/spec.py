"""What `hold` and `release` ask for. The values are validated already; JSON names and hints are in `wire`."""

from dataclasses import dataclass

from recoveryd.kernel.commands import Meta


@dataclass(frozen=True, slots=True)
class HoldSpec:
    """`reads`: recoveries may not read there either, because the topics are being corrected. `expires_ms` (absolute)
    ends the hold by itself, None = only a person does.
    """

    cluster: str
    topics: tuple[str, ...]
    reads: bool = False
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StartHold:
    meta: Meta
    spec: HoldSpec
    verb = "hold"


@dataclass(frozen=True, slots=True)
class Release:
    """`topics` None = all that the hold has. Its subject is a hold, or an id that nothing has: then the holds that the
    sender placed on the topics are meant.
    """

    meta: Meta
    cluster: str = "main"
    topics: tuple[str, ...] | None = None
    verb = "release"
