"""Secrets in files, read again when a file changes or somebody asks.

A file is read when it looks the same twice, so that one that is just being written is left alone. What cannot be used
is refused: the secret of before stays, the refusal is told, and it is tried again once a minute until it can be used.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from recoveryd.adapters.file_signature import Signature, signature_of
from recoveryd.errors import RecoverydError
from recoveryd.ports import Clock

log = structlog.stdlib.get_logger(__name__)

LOOK_S: Final = 2.0
AGAIN_S: Final = 60.0

_Signatures = tuple[Signature | None, ...]  # of each file


@dataclass(frozen=True, slots=True)
class SecretFile:
    """What is taken over together. `renew` reads `files`, and either what they hold is in force when it returns, or it
    raises `RecoverydError` and nothing changed.
    """

    name: str  # as in the config: clusters.main
    files: tuple[Path, ...]
    renew: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _SecretState:
    """The files that are in force, and those that were looked at last. `refused`: why the newest, `rejected`, are not
    taken over.
    """

    in_force: _Signatures
    seen: _Signatures
    not_before_s: float = 0.0
    refused: str = ""
    rejected: _Signatures | None = None

    def forgive(self) -> None:
        """Forget a refusal: what is in force is there again, or was taken over."""
        self.refused, self.rejected, self.not_before_s = "", None, 0.0


class SecretFiles:
    """`look_s` is for tests."""

    def __init__(self, secrets: Sequence[SecretFile], clock: Clock, look_s: float = LOOK_S) -> None:
        self._secrets = secrets
        self._clock = clock
        self._look_s = look_s
        self._asked = asyncio.Event()
        self._known: dict[str, _SecretState] = {}
        for secret in secrets:
            now = _signatures(secret.files)
            self._known[secret.name] = _SecretState(now, now)

    @property
    def refused(self) -> Mapping[str, bool]:
        """By name: whether what its files hold now was refused."""
        return {name: bool(known.refused) for name, known in self._known.items()}

    def ask(self) -> None:
        """Read all of them again now. Call in the event loop."""
        self._asked.set()

    async def run(self) -> None:
        """Run until cancelled; never raises."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._look_s)
            was_asked = self._asked.is_set()
            self._asked.clear()
            for secret in self._secrets:
                await self._look(secret, was_asked)

    async def close(self) -> None:
        """There is nothing to close."""

    async def _look(self, secret: SecretFile, was_asked: bool) -> None:
        known = self._known[secret.name]
        before, known.seen = known.seen, await asyncio.to_thread(_signatures, secret.files)
        if known.refused and known.seen == before == known.in_force != known.rejected:
            known.forgive()
            # Not as `secret`: what a line of the log has under such a key is hidden.
            log.info("the secret that is in force is there again", name=secret.name)
        has_settled = known.seen == before and known.seen != known.in_force
        if not was_asked and (not has_settled or self._clock.monotonic_s() < known.not_before_s):
            return
        known.not_before_s = self._clock.monotonic_s() + AGAIN_S
        try:
            await secret.renew()
        except RecoverydError as problem:
            known.refused, known.rejected = problem.message, known.seen
            log.error(
                "the secret of before stays",
                name=secret.name,
                error=problem.message,
                code=problem.code.value,
                hint=problem.hint,
            )
        except Exception:  # the other secrets must still be looked at
            known.refused, known.rejected = "a bug", known.seen
            log.exception("reading a secret again broke, and that of before stays", name=secret.name)
        else:
            # One that was written while it was read differs from this, and is read again.
            known.in_force = known.seen
            known.forgive()
            log.info("has read a secret again", name=secret.name)


def _signatures(files: Sequence[Path]) -> _Signatures:
    return tuple(map(signature_of, files))
