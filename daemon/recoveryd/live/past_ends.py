"""Where a partition's log ended some time before the newest look at it: what tells whoever keeps up with a live head
from whoever is behind. No rate is guessed, so a batch is as old as it is, and not what arrives from then on.

An end lies between two looks, so the older look tells it, if it was still fresh by then. Else, as after a gap, after a
restart, or where the clock was set back, the next younger one does: that asks for more, never for less.
"""

from recoveryd.live.slice import SampleHistory


def end_before(history: SampleHistory, partition: int, ago_ms: int, fresh_ms: int) -> int:
    """The end that was there `ago_ms` before the newest sample, which must know the partition. A look counts as fresh
    for `fresh_ms`.

    A log that was cut back ends where it does now, and else where it once ended, as long as a sample tells that: one
    answer that is too low cannot be told from a cut.
    """
    newest = history.samples[-1]
    ends = [
        (newest.sampled_at_ms - sample.sampled_at_ms, sample.high_watermark[partition])
        for sample in history.samples
        if sample.topic_id == newest.topic_id and partition in sample.high_watermark
    ]
    known = len(ends)
    for age_ms, _ in reversed(ends):
        if not 0 <= age_ms <= ago_ms + fresh_ms:
            break
        known -= 1
        if age_ms >= ago_ms:
            break
    return min(newest.high_watermark[partition], max(end for _, end in ends[: known + 1]))
