"""What one check of `recoveryctl doctor` says. Every check gives such a line and none raises."""

from dataclasses import dataclass
from enum import StrEnum

from recoveryd.errors import RecoverydError


@dataclass(frozen=True, slots=True)
class CheckPatience:
    """How long one question may take: of a cluster, of the daemon's page, of the daemon's answer to a command."""

    cluster_s: float = 10.0
    page_s: float = 30.0
    answer_s: float = 60.0

    @staticmethod
    def of(timeout_s: float | None) -> "CheckPatience":
        """The same for all when somebody says it."""
        return CheckPatience() if timeout_s is None else CheckPatience(timeout_s, timeout_s, timeout_s)


class CheckVerdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # worth knowing; does not fail the run
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the table. `next_step` is empty only for what is good."""

    name: str
    verdict: CheckVerdict
    found: str
    next_step: str = ""


def good(name: str, found: str) -> CheckResult:
    return CheckResult(name, CheckVerdict.OK, found)


def failed(name: str, error: RecoverydError, next_step: str = "") -> CheckResult:
    return CheckResult(name, CheckVerdict.FAIL, f"{error.code.value} {error.message}", next_step or error.hint)


def bad(name: str, found: str, next_step: str) -> CheckResult:
    return CheckResult(name, CheckVerdict.FAIL, found, next_step)


def doubtful(name: str, found: str, next_step: str) -> CheckResult:
    return CheckResult(name, CheckVerdict.WARN, found, next_step)


def skipped(name: str, found: str, next_step: str = "") -> CheckResult:
    return CheckResult(name, CheckVerdict.SKIPPED, found, next_step)
