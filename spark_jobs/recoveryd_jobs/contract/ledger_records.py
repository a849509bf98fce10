"""Lanes to every reader of the ledger: `Receipt` records, in the same transaction as the records that they tell of, and
`LedgerHead` records, which make reading short.
"""

from dataclasses import dataclass

from recoveryd_jobs.contract.coding import VERSION
from recoveryd_jobs.contract.names import head_key

Times = tuple[int, int]  # the smallest and the largest timestamp of copied records, in ms


def spanning(*found: Times | None) -> Times | None:
    """All of these together; None = no record with a timestamp is among them."""
    known = [times for times in found if times is not None]
    return (min(first for first, _ in known), max(last for _, last in known)) if known else None


def spanning_copied(*sides: tuple[int, Times | None]) -> Times | None:
    """Of sides with how many records each copied; None = nothing was copied, or one side copied records and knows no
    time of them, as receipts of releases that did not note times: what is known then is not the whole.
    """
    if any(copied and times is None for copied, times in sides):
        return None
    return spanning(*(times for _, times in sides))


DIGEST_FORM = 2  # the form that `recoveryd_jobs.digest` makes


@dataclass(frozen=True, slots=True)
class TargetRun:
    """The records of one receipt in one target partition. `runs` are [first offset, count] in order; `digest` is one
    hex digest over all of them ("" = none).

    `digest_form`: how the digest was made. This release can check DIGEST_FORM only; a digest of another form proves
    nothing.
    """

    partition: int
    count: int
    runs: tuple[tuple[int, int], ...]
    digest: str = ""
    digest_form: int = 1  # what releases wrote that did not name a form


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ledger record of one source partition in one chunk: [start, stop) is done. `copied + filtered + skipped + lost ==
    stop - start`.

    Its key on the topic is `<scope>/<recovery>/<partition>/<start>`; its partition of the receipts topic is in the
    plan's `ReceiptsHome`. `chunk` counts per lane over all attempts. `times`: None = nothing copied has one, or it was
    written by a release that did not note them.
    """

    scope: str
    recovery: str
    lane: int
    attempt: int
    chunk: int
    partition: int
    start: int
    stop: int
    copied: int
    filtered: int
    skipped: int
    lost: int
    bytes: int
    targets: tuple[TargetRun, ...] = ()
    source_topic_id: str = ""
    target_topic_id: str = ""
    written_ms: int = 0
    times: Times | None = None
    version: int = VERSION

    @property
    def key(self) -> str:
        return f"{self.scope}/{self.recovery}/{self.partition}/{self.start}"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The sum of one source partition's receipts, which follow each other without a gap from `start` to `position`."""

    partition: int
    start: int
    position: int
    copied: int = 0
    filtered: int = 0
    skipped: int = 0
    lost: int = 0
    bytes: int = 0
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The sum of all receipts of a lane, written now and then in the transaction of a chunk. A reader that begins at
    its offset needs no earlier receipt.

    It only makes reading shorter: the receipts stay, and a reader that cannot use a head reads them all. `claimed`:
    where the lane's records end, by target partition. Its key contains a `#`, which no recovery's name has, so it is
    never taken for a receipt's key.
    """

    scope: str
    recovery: str
    lane: int
    attempt: int
    next_chunk: int
    rows: tuple[LedgerRow, ...]
    claimed: tuple[tuple[int, int], ...] = ()
    source_topic_id: str = ""
    target_topic_id: str = ""
    written_ms: int = 0
    version: int = VERSION

    @property
    def key(self) -> str:
        return head_key(self.scope, self.recovery, self.lane)
