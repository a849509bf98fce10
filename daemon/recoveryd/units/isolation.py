"""One cluster for live traffic and recoveries, or one of their own? Five facts decide, each alone: a shared cluster is
as strict as the strictest of those who share it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    SHARED = "shared"
    DEDICATED = "dedicated"


@dataclass(frozen=True, slots=True)
class IsolationFacts:
    """Whether recovery windows and failure budgets of those who share it are alike; how many times what the cluster can
    spare a replay reads or writes; whether the data may be seen by everybody there; whether one team answers for all of
    it.
    """

    windows_alike: bool
    budgets_alike: bool
    replay_volume: float
    is_sensitive: bool
    has_one_owner: bool


@dataclass(frozen=True, slots=True)
class IsolationAdvice:
    """`reasons`: what speaks for a cluster of their own; of a shared one, what speaks for that."""

    advice: Isolation
    reasons: tuple[str, ...]
    instead: str


def advise(facts: IsolationFacts) -> IsolationAdvice:
    against = [
        (not facts.windows_alike, "recovery windows differ: the longest decides how long everything is kept"),
        (not facts.budgets_alike, "failure budgets differ: a replay may delay those who cannot bear it"),
        (facts.replay_volume > 1.0, f"a replay takes {facts.replay_volume:g} times what the cluster can spare"),
        (facts.is_sensitive, "the data is sensitive: copies of it need rights of their own"),
        (not facts.has_one_owner, "several teams own it: nobody alone can let a recovery go ahead"),
    ]
    reasons = tuple(told for is_so, told in against if is_so)
    if reasons:
        instead = "Where a cluster of their own is too much: quotas, a prefix with ACLs of its own, and a time window."
        return IsolationAdvice(Isolation.DEDICATED, reasons, instead)
    alike = "recovery windows and failure budgets are alike, a replay fits beside live traffic, one team answers for it"
    return IsolationAdvice(Isolation.SHARED, (alike,), "Look again when one of the five facts changes.")
