"""What of the planned range cannot be read any more: deleted from the start of the log, or cut off its end.

A loss is first accounted for and then judged: even when it ends the recovery, the receipts cover the lost offsets, and
a log that was cut back is first read to its end.
"""

import time

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.errors import JobError, Redo
from recoveryd_jobs.lane.asking import Errand, SourceQuestions
from recoveryd_jobs.lane.chunk import Chunk, SourcePart
from recoveryd_jobs.receipts import LaneLedger
from recoveryd_jobs.topics import LogBounds

_WORDS_MAX = 1_500


class Losses:
    """Those of one lane. `chunk`: the one that is open now, set by who opens it; it may be another one after each step
    of a question.
    """

    def __init__(self, spec: JobSpec, questions: SourceQuestions) -> None:
        self.chunk = Chunk({})
        self._spec = spec
        self._questions = questions
        self._sentences: list[str] = []  # one for each loss that the recovery does not allow

    @property
    def why(self) -> JobError | None:
        """Why the lane has to end, as soon as the open chunk is committed."""
        return JobError("data_lost", " ".join(self._sentences)[:_WORDS_MAX]) if self._sentences else None

    def begin(self, ledger: LaneLedger) -> None:
        """Start over from the ledger. Receipts of an earlier attempt may tell of a loss that the daemon never heard of:
        it is reported again.
        """
        self._sentences.clear()
        for partition, standing in ledger.standings.items():
            if standing.lost:
                self._tell(f"{standing.lost} offsets of {self._where(partition)} before {standing.position} are gone.")

    def account(self, planned: PartitionRange, bounds: LogBounds, cut_to: int | None = None) -> Errand:
        """Add what cannot be read any more to the open chunk. `cut_to`: where the broker says that it cut the log off.
        Raises Redo when a log was cut back within that chunk; JobError when one without a planned stop was cut back
        further, or one whose offsets before our position belong to other records now.
        """
        part, stop = self._part(planned), planned.stop
        if bounds.start > part.position:
            gone = bounds.start if stop is None else min(bounds.start, stop)
            self._lose(planned, gone, "were deleted from the log start")
        if cut_to is not None and cut_to < part.position:
            self._lose_cut(planned, cut_to, bounds)
            return
        wanted = part.position if stop is None else stop  # how far the log has to reach
        if bounds.high >= wanted or bounds.high > part.position:
            return  # read first what is there
        bounds = yield from self._questions.bounds_until_high(planned.partition, wanted)
        part = self._part(planned)
        if bounds.high >= wanted or bounds.high > part.position:
            return
        check_open(planned.partition, part, bounds.high)
        if stop is None:
            where = self._where(planned.partition)
            raise JobError(
                "data_lost", f"{where} ends at {bounds.high}, before the position {part.position}: it was cut back."
            )
        self._lose(planned, stop, f"are beyond the end {bounds.high}: the log was cut back")

    def _lose_cut(self, planned: PartitionRange, cut_to: int, bounds: LogBounds) -> None:
        """The broker is certain that it cut off what was read and committed: it asks by the epoch of its leaders, so
        that a log that is long enough again does not hide it.
        """
        if planned.stop is not None and bounds.high <= cut_to:
            self._lose(planned, planned.stop, f"are beyond the end {cut_to}: the log was cut back")
            return
        where, position = self._where(planned.partition), self._part(planned).position
        raise JobError(
            "data_lost",
            f"{where} was cut back to {cut_to}, before the position {position}: what is written there now has offsets "
            "that are counted as copied.",
        )

    def _lose(self, planned: PartitionRange, stop: int, how: str) -> None:
        part = self._part(planned)
        self._tell(f"Offsets [{part.position}, {stop}) of {self._where(planned.partition)} {how}.")
        part.lose_to(stop)
        self.chunk.touch(time.monotonic())

    def _tell(self, sentence: str) -> None:
        if self._spec.on_data_loss != "continue":
            self._sentences.append(sentence)

    def _part(self, planned: PartitionRange) -> SourcePart:
        return self.chunk.parts[planned.partition]

    def _where(self, partition: int) -> str:
        return f"{self._spec.source.topic} partition {partition}"


def check_open(partition: int, part: SourcePart, cut_to: int) -> None:
    """Raises Redo where the open chunk alone has records that the log does not have any more: nothing is lost then."""
    if part.start <= cut_to < part.position:
        raise Redo(f"partition {partition} of the source was cut back to {cut_to}, not below what is committed")
