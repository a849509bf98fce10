"""Commands about a recovery that exists, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass

from recoveryd.kernel.commands import Meta


@dataclass(frozen=True, slots=True)
class Pause:
    """`release`: its application is let go once it is paused, and another one is started to go on."""

    meta: Meta
    release: bool = False
    verb = "pause"


@dataclass(frozen=True, slots=True)
class Resume:
    meta: Meta
    verb = "resume"


@dataclass(frozen=True, slots=True)
class Throttle:
    """`changes`: limits by name. A limit that is not named stays; None sets its default (for a rate: no limit)."""

    meta: Meta
    changes: Mapping[str, float | str | None]
    verb = "throttle"


@dataclass(frozen=True, slots=True)
class Approve:
    meta: Meta
    plan_hash: str
    verb = "approve"


@dataclass(frozen=True, slots=True)
class Reject:
    meta: Meta
    plan_hash: str
    verb = "reject"
