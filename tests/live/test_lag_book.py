"""Many readers in one bounded book: polled samples and signals meet by sample time."""

from dataclasses import replace

from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.lag import book as lag_book
from recoveryd.live.lag.book import (
    LagBook,
    Reader,
    evaluate_reader,
    lag_reading,
    samples_of_signal,
    with_samples,
    without_unwatched,
)
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.lag.window import LagParams, LagSample
from recoveryd.live.signals import LagSignal
from recoveryd.live.signals import SignalledPartition as Reported

NOW_MS = 1_800_000_000_000
PARAMS = LagParams()
SHOP = Reader("main", "orders", "shop")
WATCHED = frozenset({SHOP})


def look(position: int, end: int, at_ms: int) -> LagSample:
    return LagSample(position, at_ms, end, at_ms)


def filled(partitions: int = 2, looks: int = 6) -> tuple[LagBook, int]:
    book = LagBook()
    for i in range(looks):
        at_ms = NOW_MS + i * 5_000
        report = [(p, look(i * 100, i * 100, at_ms)) for p in range(partitions)]
        book = with_samples(book, SHOP, report, at_ms, PARAMS, WATCHED)
    return book, NOW_MS + (looks - 1) * 5_000


def test_an_unknown_group_is_refused_and_counted() -> None:
    book = with_samples(
        LagBook(), Reader("main", "orders", "stranger"), [(0, look(1, 1, NOW_MS))], NOW_MS, PARAMS, WATCHED
    )
    assert book == LagBook({}, {RejectReason.UNKNOWN_NAME: 1})


def test_a_partition_named_twice_counts_once_and_the_second_is_refused() -> None:
    report = [(0, look(10, 100, NOW_MS)), (0, look(100, 100, NOW_MS))]
    book = with_samples(LagBook(), SHOP, report, NOW_MS, PARAMS, WATCHED)
    assert (book.readers[SHOP][0].position, book.rejections) == (10, {RejectReason.DUPLICATE_PARTITION: 1})


def test_a_million_partitions_are_bounded() -> None:
    most = lag_book.PARTITIONS_MOST
    report = ((p, look(1, 1, NOW_MS)) for p in range(1_000_000))
    book = with_samples(LagBook(), SHOP, report, NOW_MS, PARAMS, WATCHED)
    assert (book.partitions, book.rejections) == (most, {RejectReason.TOO_MANY: 1})
    again = with_samples(
        book,
        Reader("main", "b", "shop"),
        [(0, look(1, 1, NOW_MS))],
        NOW_MS,
        PARAMS,
        WATCHED | {Reader("main", "b", "shop")},
    )
    assert (again.partitions, again.rejections) == (most, {RejectReason.TOO_MANY: 2})


def test_a_signal_and_a_poll_merge_by_sample_time() -> None:
    book, now_ms = filled(partitions=1)
    late = LagSignal("main", "shop", "orders", (Reported(0, 900, 900, now_ms - 7_000),))
    book = with_samples(book, SHOP, samples_of_signal(late), now_ms, PARAMS, WATCHED)
    assert book.readers[SHOP][0].rejections == {RejectReason.OUT_OF_ORDER: 1}
    fresh = LagSignal("main", "shop", "orders", (Reported(0, 510, 600, now_ms + 1_000),))
    book = with_samples(book, SHOP, samples_of_signal(fresh), now_ms + 1_000, PARAMS, WATCHED)
    assert evaluate_reader(book, SHOP, (0,), now_ms + 1_000, PARAMS).offset_lag == 90


def test_a_signal_without_commit_or_end_gives_no_number() -> None:
    signal = LagSignal("main", "shop", "orders", (Reported(0, None, 600, NOW_MS), Reported(1, 5, None, NOW_MS)))
    book = with_samples(LagBook(), SHOP, samples_of_signal(signal), NOW_MS, PARAMS, WATCHED)
    group = evaluate_reader(book, SHOP, (0, 1), NOW_MS, PARAMS)
    assert (group.verdict, group.offset_lag, group.time_lag_s, group.coverage) == (LagVerdict.UNKNOWN, None, None, 0.0)


def test_the_controller_hears_of_a_group_only_while_every_partition_is_known() -> None:
    book, now_ms = filled()
    assert lag_reading("shop", evaluate_reader(book, SHOP, (0, 1), now_ms + 500, PARAMS), now_ms + 500) == Reading(
        "shop", 0.0, now_ms
    )
    assert lag_reading("shop", evaluate_reader(book, SHOP, (0, 1, 2), now_ms, PARAMS), now_ms) is None
    assert lag_reading("shop", evaluate_reader(book, SHOP, (0, 1), now_ms + 60_000, PARAMS), now_ms + 60_000) is None


def test_a_partition_to_which_nothing_was_ever_written_needs_no_commit() -> None:
    """As of a topic with keys: its consumers commit nothing there."""
    book, now_ms = filled(partitions=1)
    bare = [(1, LagSample(None, now_ms + 1, 0, now_ms + 1))]
    book = with_samples(book, SHOP, bare, now_ms + 1, PARAMS, WATCHED)
    group = evaluate_reader(book, SHOP, (0, 1), now_ms + 500, PARAMS)
    assert (group.verdict, group.offset_lag, group.coverage, group.fill) == (LagVerdict.IDLE, 0, 1.0, 0.6)
    assert lag_reading("shop", group, now_ms + 500) == Reading("shop", 0.0, now_ms)
    written = with_samples(book, SHOP, [(1, LagSample(None, now_ms + 2, 1, now_ms + 2))], now_ms + 2, PARAMS, WATCHED)
    nobody = with_samples(LagBook(), SHOP, bare, now_ms + 1, PARAMS, WATCHED)
    for known, planned, later_ms in ((written, (0, 1), 500), (nobody, (0, 1), 500), (book, (0, 1), 11_000)):
        group = evaluate_reader(known, SHOP, planned, now_ms + later_ms, PARAMS)
        assert (group.verdict, group.offset_lag, group.time_lag_s) == (LagVerdict.UNKNOWN, None, None)
        assert lag_reading("shop", group, now_ms + later_ms) is None


def test_the_controller_hears_nothing_of_the_wait_for_rare_commits_and_in_time_of_a_group_that_stands() -> None:
    """It commits each 30 s and has an SLO of 40 s; from the 42nd look on it commits no more."""
    params, book, heard = replace(PARAMS, slo_ms=40_000), LagBook(), []
    for i in range(51):
        now_ms = NOW_MS + i * 5_000
        at = min(i, 42) // 6 * 6
        book = with_samples(book, SHOP, [(0, look(at * 500, i * 500, now_ms))], now_ms, params, WATCHED)
        reading = lag_reading("shop", evaluate_reader(book, SHOP, (0,), now_ms, params), now_ms)
        heard.append(reading.value if reading else None)
    assert max(value for value in heard[12:50] if value is not None) <= 10
    assert heard[-1] == 40


def test_the_lag_of_a_group_from_before_the_first_look_is_not_guessed_from_what_is_written_now() -> None:
    """It is ten minutes behind a topic of 1,000 records/s as the daemon starts, and in the same moment somebody writes
    50,000/s; the SLO is a minute.
    """
    params, book, heard = replace(PARAMS, slo_ms=60_000), LagBook(), []
    for i in range(25):
        now_ms = NOW_MS + i * 5_000
        sample = look(86_400_000 - 600_000 + i * 5_000, 86_400_000 + i * 250_000, now_ms)
        book = with_samples(book, SHOP, [(0, sample)], now_ms, params, WATCHED)
        group = evaluate_reader(book, SHOP, (0,), now_ms, params)
        assert (group.time_lag_s, group.coverage) == (None, 1.0)
        reading = lag_reading("shop", group, now_ms)
        heard.append(reading and reading.value)
    assert heard[:12] == [None] * 12
    assert heard[12:] == [60.0 + 5 * i for i in range(13)]


def test_one_partition_that_is_over_the_slo_is_enough_whatever_is_not_known_of_others() -> None:
    params, book = replace(PARAMS, slo_ms=30_000), LagBook()
    for i in range(8):
        now_ms = NOW_MS + i * 5_000
        report = [(0, look(10, 100 + i, now_ms)), (1, look(i, i, now_ms))]
        report += [(2, look(10, 100 + i, now_ms))] if i == 7 else []
        book = with_samples(book, SHOP, report, now_ms, params, WATCHED)
    group = evaluate_reader(book, SHOP, (0, 1, 2), now_ms, params)
    assert (group.time_lag_s, group.steady_s) == (None, 35.0)


def test_a_group_that_keeps_up_is_known_at_once_after_a_restart() -> None:
    """Where it is at its end at the first look; where it commits each five seconds, as soon as it has committed what
    came since then.
    """
    first = with_samples(LagBook(), SHOP, [(0, look(700, 700, NOW_MS))], NOW_MS, PARAMS, WATCHED)
    assert lag_reading("shop", evaluate_reader(first, SHOP, (0,), NOW_MS, PARAMS), NOW_MS) == Reading("shop", 0, NOW_MS)
    book, heard = LagBook(), []
    for i in range(3):
        now_ms = NOW_MS + i * 5_000
        book = with_samples(
            book, SHOP, [(0, look(50_000 + i * 500 - 400, 50_000 + i * 500, now_ms))], now_ms, PARAMS, WATCHED
        )
        reading = lag_reading("shop", evaluate_reader(book, SHOP, (0,), now_ms, PARAMS), now_ms)
        heard.append(reading and reading.value)
    assert heard == [None, 4.0, 4.0]


def with_signals_between(
    looks: list[tuple[int, LagSample]], read: int = 0, params: LagParams = PARAMS, until_s: int = 60
) -> tuple[LagBook, int]:
    """An exporter tells each second that all up to `read` of 10,000 records is read. Each of our looks begins at its
    time, and comes half a second later.
    """
    book, waiting = LagBook(), dict(looks)
    for second in range(until_s):
        at_ms = NOW_MS + second * 1_000
        report = LagSignal("main", "shop", "orders", (Reported(0, read, 10_000 + second, at_ms + 200),))
        book = with_samples(book, SHOP, samples_of_signal(report), at_ms + 300, params, WATCHED)
        if second in waiting:
            sample = waiting[second]._replace(position_at_ms=at_ms, end_at_ms=at_ms + 100, end=10_000 + second)
            book = with_samples(book, SHOP, [(0, sample)], at_ms + 500, params, WATCHED)
    return book, NOW_MS + until_s * 1_000


def looks(until_s: int = 60, **told: object) -> list[tuple[int, LagSample]]:
    return [(s, look(0, 0, 0)._replace(**told)) for s in range(0, until_s, 5)]  # type: ignore[arg-type]


def test_signals_that_come_oftener_than_our_looks_leave_what_only_these_tell() -> None:
    book, now_ms = with_signals_between(looks(is_active=True, log_start=40, topic_id="t"), read=9_000)
    window = book.readers[SHOP][0]
    assert (window.is_active, window.log_start, window.topic_id, window.position) == (True, 40, "t", 9_000)
    assert window.rejections == {}
    for told, read, verdict in (
        ({"is_active": False}, 100, LagVerdict.STOPPED),
        ({"log_start": 40}, 10, LagVerdict.DATA_LOST),
    ):
        book, now_ms = with_signals_between(looks(**told), read)
        assert evaluate_reader(book, SHOP, (0,), now_ms, PARAMS).verdict is verdict


def test_what_a_look_told_is_no_longer_known_after_two_periods_of_signals_alone() -> None:
    told = looks(until_s=30, is_active=True)
    for until_s, is_active in ((35, True), (37, None)):
        book, _ = with_signals_between(told, until_s=until_s)
        assert book.readers[SHOP][0].is_active is is_active


def test_a_topic_that_was_created_anew_is_seen_between_signals_too() -> None:
    told = looks(topic_id="t")[:10] + looks(topic_id="u")[10:]
    book, now_ms = with_signals_between(told, until_s=51)
    assert evaluate_reader(book, SHOP, (0,), now_ms, PARAMS).verdict is LagVerdict.INVALID


def test_an_open_transaction_is_seen_between_signals_too_and_is_over_when_the_position_is_past_it() -> None:
    params = replace(PARAMS, is_read_committed=True, slo_ms=20_000)
    book, now_ms = with_signals_between(looks(last_stable=9_000), 9_000, params)
    group = evaluate_reader(book, SHOP, (0,), now_ms, params)
    assert (group.offset_lag, group.time_lag_s, group.steady_s) == (0, None, 59.1), "it was open before the first look"
    for read in (8_000, 9_500):
        book, now_ms = with_signals_between(looks(last_stable=9_000), read, params)
        assert evaluate_reader(book, SHOP, (0,), now_ms, params).offset_lag == (1_000 if read == 8_000 else 559)


def test_readers_nobody_watches_any_more_are_forgotten() -> None:
    book, _ = filled()
    assert without_unwatched(book, WATCHED) is book
    assert without_unwatched(book, frozenset()).partitions == 0
