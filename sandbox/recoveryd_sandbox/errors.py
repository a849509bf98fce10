# ruff: noqa: N818  (the name says what is wrong; every one of them is an error)
"""What can go wrong in the sandbox, as one family, so that the command line can print each as a sentence and a hint."""


class SandboxError(Exception):
    """A sandbox operation failed. `str(error)` is the sentence, `hint` the next step (may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class JavaMissing(SandboxError):
    """No Java of the needed version on this machine."""


class JarsUnavailable(SandboxError):
    """The Kafka jars are not in the cache and could not be fetched."""


class BrokerFailed(SandboxError):
    """The broker process did not come up, or ended by itself."""


class LockTimeout(SandboxError):
    """Another process held a lock for too long."""


class CommandRefused(SandboxError):
    """The daemon did not take a command; the message has its code and reason."""


class SeedRefused(SandboxError):
    """The topic to seed has contents that seeding would make wrong."""
