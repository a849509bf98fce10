"""Lanes to every reader of the ledger: `Receipt` records, in the same transaction as the records that they tell of, and
`LedgerHead` records, which make reading short.
"""

from dataclasses import dataclass

from recoveryd_jobs.contract.coding import VERSION
from recoveryd_jobs.contract.names import head_key

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
    plan's `ReceiptsHome`. `chunk` counts per lane over all attempts.
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
