"""How measured latencies become readings for the law, and that clusters and servers without answers stop nothing."""

import asyncio
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import comb

import pytest
from structlog.testing import capture_logs

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.collectors.canary import CanaryCollector, next_due_s
from recoveryd.collectors.promql import selectors
from recoveryd.collectors.queries import DEADLINE_S, LOOKBACK_LEAST_S, Query, QueryCollector
from recoveryd.collectors.readings import ENOUGH, LatencyWindow, bound_rank
from recoveryd.kernel.events import Event
from recoveryd.live.events import ReadingTaken
from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.look_back import look_back_ms
from recoveryd.metrics.definitions import CANARY_PRODUCE, METRICS
from recoveryd.ports import Fate, Probe, QueryAnswer
from recoveryd.settings.live import MonitorSection
from tests.runtime.fakes import ManualClock, until

DELIVERED, WAITING = Fate.DELIVERED, Fate.WAITING


def test_a_reading_of_few_measurements_is_their_worst_after_two_periods_and_bears_the_time_the_interval_began() -> None:
    clock = ManualClock(1_000)
    window = LatencyWindow("produce_latency", 2.0, clock)
    for seconds in (0.1, 0.4, 0.2):
        window.add(seconds)
        clock.ms += 1_000
        assert window.take() is None
    clock.ms += 1_000
    assert window.take() == Reading("produce_latency", 0.4, 1_000)
    window.add(0.3)
    clock.ms += 4_000
    assert window.take() == Reading("produce_latency", 0.3, 5_000)


def test_an_interval_ends_with_enough_measurements_and_not_before_its_period() -> None:
    clock = ManualClock(0)
    window = LatencyWindow("produce_latency", 2.0, clock)
    for _ in range(ENOUGH):
        assert window.take() is None
        window.add(0.1)
        clock.ms += 60
    assert window.take() is None
    clock.ms = 2_000
    assert window.take() == Reading("produce_latency", 0.1, 0)


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (28, 28), (29, 29), (45, 45), (46, 45), (61, 59), (200, 188)])
def test_the_bound_is_above_the_90th_percentile_with_95_percent_certainty(count: int, rank: int) -> None:
    assert bound_rank(count) == rank
    chance_below = sum(comb(count, k) * 0.9**k * 0.1 ** (count - k) for k in range(bound_rank(count)))
    assert chance_below >= 0.95 or bound_rank(count) == count


def test_one_slow_record_of_many_does_not_make_the_reading() -> None:
    clock = ManualClock(0)
    window = LatencyWindow("produce_latency", 5.0, clock)
    for seconds in (9.0, *(0.01 + i / 10_000 for i in range(49))):
        window.add(seconds)
    clock.ms = 5_000
    reading = window.take()
    assert reading is not None
    assert reading.value < 0.02


def test_a_flood_of_measurements_is_bounded() -> None:
    clock = ManualClock(0)
    window = LatencyWindow("produce_latency", 2.0, clock)
    for i in range(5_000):
        window.add(float(i))
    clock.ms = 2_000
    reading = window.take()
    assert reading is not None
    assert reading.value >= 4_800


def test_an_interval_without_a_measurement_is_no_reading() -> None:
    clock = ManualClock()
    window = LatencyWindow("produce_latency", 2.0, clock)
    clock.ms += 5_000
    assert window.take() is None
    window.add(0.3)
    window.begin()
    clock.ms += 5_000
    assert window.take() is None


class ScriptedCanary:
    """A canary whose probes end as the script says; each takes a second of the clock. At the script's end the daemon
    does not lead any more.
    """

    def __init__(self, clock: ManualClock, script: Sequence[Probe | Exception]) -> None:
        self.clock, self.script = clock, list(script)
        self.probed = self.closed = 0

    async def probe(self, wait_s: float) -> Probe:
        assert wait_s == 1.0
        self.probed += 1
        self.clock.ms += 1_000
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        self.closed += 1


class Told:
    """The readings of a canary collector over a script, of two probes each."""

    def __init__(self, script: Sequence[Probe | Exception]) -> None:
        clock = ManualClock(0)
        self.canary, self.events, self.observed = (
            ScriptedCanary(clock, script),
            list[Event](),
            list[tuple[str, float]](),
        )
        self.collector = CanaryCollector(
            {"main": self.canary},
            self.events.append,
            lambda cluster, seconds: self.observed.append((cluster, seconds)),
            lambda: bool(self.canary.script),
            clock,
            name="produce_latency",
            every_s=1.0,
            reading_every_s=1.0,
        )

    async def run(self) -> list[tuple[int, float]]:
        """(time in s, value) of the readings, once the script is over and the canary closed."""
        running = asyncio.create_task(self.collector.run())
        try:
            await until(lambda: self.canary.closed)
        finally:
            running.cancel()
        assert all(isinstance(e, ReadingTaken) and e.domain == "main" for e in self.events)
        return [(e.reading.sampled_at_ms // 1_000, e.reading.value) for e in self.events if isinstance(e, ReadingTaken)]


@pytest.mark.parametrize(
    ("script", "readings", "observed"),
    [
        ([Probe(DELIVERED, 0.1), Probe(DELIVERED, 0.3), Probe(DELIVERED, 0.2), Probe(DELIVERED, 0.1)], [(0, 0.3), (2, 0.2)], 4),
        # The first record of a client is no measurement.
        ([Probe(DELIVERED), Probe(DELIVERED, 0.1)], [(0, 0.1)], 1),
        # A broker that hangs: the age of the one record grows from reading to reading, then its time counts.
        ([Probe(WAITING, s) for s in (1.0, 2.0, 3.0, 4.0)] + [Probe(DELIVERED, 4.5), Probe(DELIVERED, 0.1)], [(0, 2.0), (2, 4.0), (4, 4.5)], 6),
        ([Probe(WAITING, 29.0), Probe(Fate.GIVEN_UP, 30.0, "timed out"), Probe(Fate.GIVEN_UP, 33.0, "no answer"), Probe(WAITING, 34.0)], [(0, 30.0), (2, 34.0)], 4),
        # A probe that says nothing about latency gives no reading.
        ([Probe(Fate.UNUSABLE, None, "no topic"), Probe(Fate.UNUSABLE, None, "no topic")], [], 0),
        ([ValueError("a bug"), Probe(DELIVERED, 0.2)], [(0, 0.2)], 1),
    ],
)  # fmt: skip
async def test_readings_of_the_canary(
    script: list[Probe | Exception], readings: list[tuple[int, float]], observed: int
) -> None:
    told = Told(script)
    assert await told.run() == readings
    assert len(told.observed) == observed


async def test_a_broker_that_hangs_is_seen_in_the_histogram_too() -> None:
    """It is 8 s of a minute: without what waits, one slow record in 521, and p99 as at rest."""
    quick = [Probe(DELIVERED, 0.004)] * 260
    told = Told([*quick, *(Probe(WAITING, 0.1 * n) for n in range(1, 81)), Probe(DELIVERED, 8.1), *quick])
    await told.run()
    metrics = Metrics(METRICS)
    for cluster, seconds in told.observed:
        metrics.observe(CANARY_PRODUCE, seconds, (cluster,))
    counts = {
        float(found[1]): float(found[2])
        for found in re.finditer(r'canary_produce_seconds_bucket\{.*le="([^"]+)"\} (\S+)', metrics.render().decode())
    }
    assert counts[math.inf] == 601.0
    assert counts[1.0] < 0.99 * 601


def test_the_histogram_can_tell_what_is_over_the_usual_slo() -> None:
    slo_s = MonitorSection().canary.slo_ms / 1000
    below, above = bisect_left(CANARY_PRODUCE.buckets, slo_s), bisect_right(CANARY_PRODUCE.buckets, slo_s)
    assert above == below + 1
    assert CANARY_PRODUCE.buckets[above] <= 1.3 * slo_s
    assert CANARY_PRODUCE.buckets[below - 1] >= 0.7 * slo_s


def test_records_keep_their_pace_though_each_is_sent_a_little_late_and_none_is_made_up_for() -> None:
    due_s, sent = 0.0, list[float]()
    for took_s in (0.004, 0.004, 0.004, 0.25, 0.004):
        now_s = due_s + 0.002
        sent.append(now_s)
        due_s = next_due_s(due_s, 0.1, now_s + took_s)
    assert [round(at_s, 3) for at_s in (*sent, due_s)] == [0.002, 0.102, 0.202, 0.302, 0.554, 0.652]


async def test_a_canary_complains_once_and_says_when_it_is_well_again() -> None:
    bad, good = Probe(Fate.UNUSABLE, None, "no topic"), Probe(DELIVERED, 0.1)
    with capture_logs() as logged:
        await Told([bad, bad, good, good, bad]).run()
    said = [(line["log_level"], line.get("why")) for line in logged]
    assert said == [("warning", "no topic"), ("info", None), ("warning", "no topic")]


async def test_a_standby_sends_no_canary() -> None:
    told = Told([])
    running = asyncio.create_task(told.collector.run())
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()
    assert (told.canary.probed, told.canary.closed) == (0, 0)


class ScriptedPrometheus:
    """Gives the answers in turn; each takes a second of the clock."""

    def __init__(self, clock: ManualClock, script: Sequence[QueryAnswer | Exception]) -> None:
        self.clock, self.script = clock, list(script)
        self.asked: list[tuple[str, str, float, float]] = []

    async def ask(self, url: str, query: str, lookback_s: float, deadline_s: float) -> QueryAnswer:
        self.asked.append((url, query, lookback_s, deadline_s))
        self.clock.ms += 1_000
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        return


QUERY = Query("p99", "main", "http://prometheus:9090", "vector(1)", 0.001)  # nothing whose samples could be old
NO_ANSWER = QueryAnswer(None, RejectReason.NO_ANSWER, "down")
GONE = QueryAnswer(None, RejectReason.NO_ANSWER, "0 series", is_empty=True)


def query_collector(
    prometheus: ScriptedPrometheus, refused: list[RejectReason], query: Query, leads: Callable[[], bool]
) -> tuple[QueryCollector, list[Event]]:
    events: list[Event] = []
    return QueryCollector([query], prometheus, events.append, refused.append, leads, prometheus.clock), events


async def test_an_answer_is_a_reading_of_the_time_of_asking_and_anything_else_is_counted() -> None:
    nan = QueryAnswer(None, RejectReason.NOT_A_NUMBER, "the query gives NaN")
    script = [QueryAnswer(0.25), NO_ANSWER, nan, ValueError("a bug"), QueryAnswer(0.5)]
    prometheus, refused = ScriptedPrometheus(ManualClock(0), script), list[RejectReason]()
    collector, events = query_collector(prometheus, refused, QUERY, lambda: bool(prometheus.script))
    with capture_logs() as logged:
        running = asyncio.create_task(collector.run())
        await until(lambda: len(events) == 2)
        running.cancel()
    assert events == [ReadingTaken("main", Reading("p99", 0.25, 0)), ReadingTaken("main", Reading("p99", 0.5, 4_000))]
    assert refused == [RejectReason.NO_ANSWER, RejectReason.NOT_A_NUMBER, RejectReason.NO_ANSWER]
    assert [(line["log_level"], line.get("why")) for line in logged] == [
        ("warning", "down"), ("error", None), ("info", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("every_s", "lookback_s", "deadline_s"), [(1.0, LOOKBACK_LEAST_S, 1.0), (60.0, 240.0, DEADLINE_S)]
)
async def test_a_question_is_over_before_the_next_and_looks_back_a_few_periods(
    every_s: float, lookback_s: float, deadline_s: float
) -> None:
    prometheus = ScriptedPrometheus(ManualClock(), [QueryAnswer(0.25)])
    query = Query("p99", "main", "http://prometheus:9090", "vector(1)", every_s)
    collector, events = query_collector(prometheus, [], query, lambda: bool(prometheus.script))
    running = asyncio.create_task(collector.run())
    await until(lambda: events)
    running.cancel()
    assert prometheus.asked == [(query.url, query.query, lookback_s, deadline_s)]


async def times_taken(prometheus: ScriptedPrometheus, expression: str, count: int) -> list[int]:
    """Of the first `count` readings."""
    query = Query("p99", "main", "http://prometheus:9090", expression, 0.001)
    collector, events = query_collector(prometheus, [], query, lambda: bool(prometheus.script))
    running = asyncio.create_task(collector.run())
    await until(lambda: len(events) == count)
    running.cancel()
    return [event.reading.sampled_at_ms for event in events if isinstance(event, ReadingTaken)]


async def test_a_reading_bears_the_time_of_the_scrape_behind_it_and_the_same_scrape_is_no_new_one() -> None:
    ages = [QueryAnswer(40.0), QueryAnswer(42.0), QueryAnswer(0.5)]  # a question takes a second
    script = [answer for age in ages for answer in (age, QueryAnswer(0.25))]
    prometheus = ScriptedPrometheus(ManualClock(100_000), script)
    assert await times_taken(prometheus, "max(p99)", 3) == [60_000, 60_000, 103_500]
    assert [asked[1] for asked in prometheus.asked[:2]] == ["time() - max(timestamp(p99))", "max(p99)"]


@pytest.mark.parametrize(
    ("expression", "age"),
    [
        ("max(p99) or vector(0)", "time() - max(timestamp(p99))"),
        ("max(rate(p99[90s]))", "time() - max(timestamp(p99))"),  # answers out of the rest of its range
        ("absent(p99)", "time() - max(timestamp(p99))"),
    ],
)
async def test_a_query_whose_series_are_gone_gives_no_reading_though_it_would_have_an_answer(
    expression: str, age: str
) -> None:
    prometheus, refused = ScriptedPrometheus(ManualClock(100_000), [GONE, GONE]), list[RejectReason]()
    query = Query("p99", "main", "http://prometheus:9090", expression, 0.001)
    collector, events = query_collector(prometheus, refused, query, lambda: bool(prometheus.script))
    with capture_logs() as logged:
        running = asyncio.create_task(collector.run())
        await until(lambda: len(refused) == 2)
        running.cancel()
    assert (events, [asked[1] for asked in prometheus.asked]) == ([], [age, age])
    assert refused == [RejectReason.NO_ANSWER, RejectReason.NO_ANSWER]
    why = "no series that it reads has a sample now, so that its answer would tell nothing of now"
    assert [(line["log_level"], line["why"]) for line in logged] == [("warning", why)]


async def test_readings_go_on_when_the_series_of_a_query_are_back() -> None:
    script = [GONE, QueryAnswer(1.0), QueryAnswer(0.25)]
    prometheus = ScriptedPrometheus(ManualClock(100_000), script)
    assert await times_taken(prometheus, "max(p99) or vector(0)", 1) == [100_000]


async def test_a_reading_over_a_range_bears_the_time_at_which_the_range_begins() -> None:
    script = [QueryAnswer(answer) for age_s in (5.0, 7.0, 0.0) for answer in (age_s, 0.25)]
    prometheus = ScriptedPrometheus(ManualClock(100_000), script)
    assert await times_taken(prometheus, "max(rate(p99[1m] offset 10s))", 3) == [25_000, 25_000, 34_000]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("max(p99)", 0),
        ("rate(x[1m])", 60),
        ("rate(x[1m] offset 2m)", 180),
        ("rate(x[90])", 90),
        ("rate(x[1m30s])", 90),
        ('histogram_quantile(0.99, sum by (le) (rate(x_bucket{job="a[9m]",b!=`c`}[1m]))) # over [5m]', 60),
        ("rate(x[30s]) / rate(y[1m]) + z", 60),
        ("max_over_time(rate(x[1m])[5m:10s])", 360),
        ("max_over_time((rate(x[1m]) + y[10m])[5m:])", 900),
        ("(a offset 10s) + b[20s]", 20),
        ("rate(x[1m] @ start() offset 10s)", 70),
        ("rate(x[1m] offset -30s)", 30),
        ("x offset -30s", 0),
        ("x[1d] + y[1.5h]", 86_400),
        ("rate(x[$__rate_interval])", None),
        ("rate(x[])", None),
        ("rate(x[1m])))", 60),
    ],
)
def test_how_far_an_expression_looks_back(query: str, seconds: int | None) -> None:
    assert look_back_ms(query) == (None if seconds is None else seconds * 1_000)


async def test_where_the_age_is_not_told_nothing_is() -> None:
    script = [NO_ANSWER, QueryAnswer(1.0), QueryAnswer(0.25)]
    prometheus, refused = ScriptedPrometheus(ManualClock(100_000), script), list[RejectReason]()
    query = Query("p99", "main", "http://prometheus:9090", "max(p99)", 0.001)
    collector, events = query_collector(prometheus, refused, query, lambda: bool(prometheus.script))
    running = asyncio.create_task(collector.run())
    await until(lambda: events)
    running.cancel()
    assert events == [ReadingTaken("main", Reading("p99", 0.25, 100_000))]
    assert refused == [RejectReason.NO_ANSWER]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("max(p99)", ("p99",)),
        ("vector(1) + 1e3", ()),
        (
            'histogram_quantile(0.99, sum by (le, job) (rate(http_bucket{job="a{b}[5m]",x=~"c\\"d"}[1m])))',
            ('http_bucket{job="a{b}[5m]",x=~"c\\"d"}',),
        ),
        ('{__name__="x"} offset 5m', ('{__name__="x"}',)),
        ("job:lat:p99{a='b'} / on (x) group_left (y) other > bool 5 # not this", ("job:lat:p99{a='b'}", "other")),
        ("max_over_time(foo[5m:10s]) and avg without(instance) (foo)", ("foo",)),
    ],
)
def test_the_selectors_of_an_expression(query: str, found: tuple[str, ...]) -> None:
    assert selectors(query) == found


async def test_a_standby_asks_no_prometheus() -> None:
    prometheus = ScriptedPrometheus(ManualClock(), [])
    collector, events = query_collector(prometheus, [], QUERY, lambda: False)
    running = asyncio.create_task(collector.run())
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()
    assert (prometheus.asked, events) == ([], [])
