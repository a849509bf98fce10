"""Latencies that the operator's Prometheus knows: each configured query is asked with its own period, and its one
number becomes a reading.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from recoveryd.collectors.promql import age_query
from recoveryd.live.events import ReadingTaken
from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.look_back import look_back_ms
from recoveryd.ports import Clock, Emit, Queries, QueryAnswer

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 10.0
LOOKBACK_LEAST_S: Final = 90.0  # scraping once a minute is common, and one scrape may be late
LOOKBACK_PERIODS: Final = 4
SAME_SCRAPE_MS: Final = 500  # two answers differ by what they took; nobody scrapes more often than each second
GONE: Final = "no series that it reads has a sample now, so that its answer would tell nothing of now"

Refuse = Callable[[RejectReason], None]


@dataclass(frozen=True, slots=True)
class Query:
    """`query` yields seconds; `name` is the name of the reading in the domain of `cluster`."""

    name: str
    cluster: str
    url: str
    query: str
    every_s: float


class QueryCollector:
    """`leads`: whether this daemon leads now; a standby asks nothing. `refuse` is called for each unusable answer, to
    count it.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        prometheus: Queries,
        emit: Emit,
        refuse: Refuse,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._queries = tuple(queries)
        self._prometheus = prometheus
        self._emit = emit
        self._refuse = refuse
        self._leads = leads
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled; never raises. Servers do not wait for each other."""
        await asyncio.gather(*(self._repeat(query) for query in self._queries))

    async def close(self) -> None:
        await self._prometheus.close()

    async def _repeat(self, query: Query) -> None:
        said, newest_ms = False, 0
        age_text, look_back = age_query(query.query), look_back_ms(query.query) or 0
        while True:
            began_s = self._clock.monotonic_s()
            if self._leads():
                # The age comes first: a scrape in between then makes a new value look old, and no old one new.
                asked_at_ms = self._clock.now_ms()
                age = await self._age(query, age_text)
                answer = age if age.value is None else await self._ask(query, query.query)
                if answer.value is not None and age.value is not None:
                    at_ms = asked_at_ms - round(1_000 * max(0.0, age.value))
                    is_same = not age.is_empty and abs(at_ms - newest_ms) < SAME_SCRAPE_MS
                    newest_ms = newest_ms if is_same else at_ms
                    # Of a range it has the time of its beginning: "taken after a cut" is then true of all of it.
                    taken = Reading(query.name, answer.value, newest_ms - look_back)
                    self._emit(ReadingTaken(query.cluster, taken))
                elif answer.reject is not None:
                    self._refuse(answer.reject)
                said = _say(query, answer, said)
            await asyncio.sleep(max(0.0, query.every_s - (self._clock.monotonic_s() - began_s)))

    async def _age(self, query: Query, text: str | None) -> QueryAnswer:
        """How long ago the newest sample behind the query was scraped, in seconds by the server's clock, which may
        differ from ours. Between two scrapes answers are the same sample, and no new reading. `text`: what asks for
        it; None = the query reads no series, and is as new as the asking: 0 and empty.
        """
        if text is None:
            return QueryAnswer(0.0, is_empty=True)
        answer = await self._ask(query, text)
        # The query may have an answer still, by `or vector(0)` or out of the rest of a range: it would look new.
        return QueryAnswer(None, RejectReason.NO_ANSWER, GONE) if answer.is_empty else answer

    async def _ask(self, query: Query, text: str) -> QueryAnswer:
        lookback_s = max(LOOKBACK_LEAST_S, LOOKBACK_PERIODS * query.every_s)
        try:
            return await self._prometheus.ask(query.url, text, lookback_s, min(DEADLINE_S, query.every_s))
        except Exception:
            log.exception("a query broke")
            return QueryAnswer(None, RejectReason.NO_ANSWER, "the query broke")


def _say(query: Query, answer: QueryAnswer, said: bool) -> bool:
    """Log the first unusable answer in a row and the first good one after it. Returns whether the last answer was
    unusable.
    """
    if answer.value is None and not said:
        log.warning("a query gives no reading", name=query.name, cluster=query.cluster, why=answer.why)
    elif answer.value is not None and said:
        log.info("a query gives readings again", name=query.name, cluster=query.cluster)
    return answer.value is None
