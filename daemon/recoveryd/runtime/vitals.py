"""How the loop is, for health, metrics and those who wait for the journal."""

from dataclasses import dataclass
from typing import Final

# A write that takes longer counts as failing from its beginning, also before the client gives its first try up.
SLOW_WRITE_S: Final = 5.0


@dataclass(slots=True)
class Vitals:
    """The loop's state for health. Times are monotonic seconds; None = no round or write now, or the journal works.
    `write_began_s` is of a write with all its tries, `try_began_s` of the present one.
    """

    role: str = "standby"  # standby | taking_over | leader
    is_loaded: bool = False
    round_began_s: float | None = None
    journal_failing_s: float | None = None
    write_began_s: float | None = None
    try_began_s: float | None = None

    def journal_failing_for_s(self, now_s: float) -> float | None:
        """Since when nothing could be written to the journal, or it could not be opened; None while it works."""
        began_s = self.write_began_s
        if began_s is not None and now_s - began_s > SLOW_WRITE_S:
            return now_s - began_s
        return _age_s(self.journal_failing_s, now_s)

    def round_for_s(self, now_s: float) -> float | None:
        return _age_s(self.round_began_s, now_s)

    def try_for_s(self, now_s: float) -> float | None:
        return _age_s(self.try_began_s, now_s)


def knows_recoveries(role: str, *, is_loaded: bool) -> bool:
    """Whether what is known may be told. A standby that led once still has what it knew then; the daemon that leads now
    has changed it since. One that asks the journal whether it still leads tells what it knows until the answer comes:
    while Kafka is away, nobody else could.
    """
    return is_loaded and role != "standby"


def _age_s(since_s: float | None, now_s: float) -> float | None:
    return None if since_s is None else now_s - since_s
