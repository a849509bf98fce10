"""Positions of consumer groups: one query per group over all its topics, one per cluster about members, and the events
made of them.

A group that does not answer lacks its own answers only; this module never turns a missing answer into a lag.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from recoveryd.holds.events import GroupSeen
from recoveryd.live.events import ReaderSampled, TopicSample
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagSample
from recoveryd.ports import Clock, GroupOffsets

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 6.0
COMMITS_ALONE_S: Final = 600.0

_Group = tuple[str, str]  # cluster, group
T = TypeVar("T")


class Positions(NamedTuple):
    """Committed offsets of a group on one topic, by partition, and when they were asked for. `is_active`: somebody
    reads as this group; None = not known.
    """

    asked_at_ms: int
    committed: Mapping[int, int]
    is_active: bool | None


@dataclass(slots=True)
class _SeenTopic:
    """A group at its last look. `moved_s`: when its offsets last moved while it had no member."""

    committed: Mapping[str, Mapping[int, int]]
    is_memberless: bool
    moved_s: float | None


class GroupLooks:
    """Remembers the last look at each group, so that a reader that commits without joining is not taken for stopped."""

    def __init__(self, groups: GroupOffsets, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._seen: dict[_Group, _SeenTopic] = {}
        self._failing: dict[str, frozenset[str]] = {}

    async def look(self, readers: Iterable[Reader], widths: Mapping[tuple[str, str], int]) -> dict[Reader, Positions]:
        """The positions of each reader that answered. `widths`: partition counts of topics, as far as known."""
        topics: dict[_Group, dict[str, int | None]] = {}
        for reader in readers:
            width = widths.get((reader.cluster, reader.topic))
            topics.setdefault((reader.cluster, reader.group), {})[reader.topic] = width
        asked_at_ms = self._clock.now_ms()
        committed, members = await asyncio.gather(self._ask_groups(topics), self._ask_members({c for c, _ in topics}))
        now_s = self._clock.monotonic_s()
        before, self._seen = self._seen, {group: seen for group, seen in self._seen.items() if group in topics}
        found = {}
        for (cluster, group), offsets in committed.items():
            has_members = members.get(cluster, {}).get(group)
            seen = _remembered(before.get((cluster, group)), offsets, has_members, now_s)
            self._seen[cluster, group] = seen
            is_active = None if _is_read_alone(seen, now_s) else has_members
            for topic in offsets.keys() & topics[cluster, group].keys():
                found[Reader(cluster, topic, group)] = Positions(asked_at_ms, offsets[topic], is_active)
        return found

    async def members(self, groups: Iterable[_Group]) -> list[GroupSeen]:
        """The members of each group that answered."""
        wanted = list(groups)
        asked_at_ms = self._clock.now_ms()
        answers = await _each(self._groups.members(cluster, group) for cluster, group in wanted)
        self._note({f"the members of {g} on {c}": a for (c, g), a in zip(wanted, answers, strict=True)}, "members")
        return [
            GroupSeen(cluster, group, asked_at_ms, answer)
            for (cluster, group), answer in zip(wanted, answers, strict=True)
            if answer is not None and not isinstance(answer, BaseException)
        ]

    async def close(self) -> None:
        await self._groups.close()

    async def _ask_groups(
        self, topics: Mapping[_Group, Mapping[str, int | None]]
    ) -> dict[_Group, Mapping[str, Mapping[int, int]]]:
        answers = await _each(self._groups.committed(c, group, named) for (c, group), named in topics.items())
        self._note(
            {f"the offsets of {group} on {c}": a for (c, group), a in zip(topics, answers, strict=True)}, "offsets"
        )
        return {g: a for g, a in zip(topics, answers, strict=True) if not isinstance(a, BaseException)}

    async def _ask_members(self, clusters: Iterable[str]) -> dict[str, Mapping[str, bool]]:
        names = sorted(clusters)
        answers = await _each(self._groups.have_members(name) for name in names)
        self._note({f"the groups of {name}": a for name, a in zip(names, answers, strict=True)}, "groups")
        return {name: a for name, a in zip(names, answers, strict=True) if not isinstance(a, BaseException)}

    def _note(self, answers: Mapping[str, object], kind: str) -> None:
        """Log once that something does not answer, and once that it answers again."""
        before = self._failing.get(kind, frozenset())
        now = frozenset(what for what, answer in answers.items() if isinstance(answer, BaseException))
        for what in sorted(now - before):
            log.warning("could not be asked, will try again", what=what, error=str(answers[what]) or "timeout")
        for what in sorted((before - now) & answers.keys()):
            log.info("can be asked again", what=what)
        self._failing[kind] = now


def make_reader_sampled(reader: Reader, positions: Positions, sample: TopicSample) -> ReaderSampled:
    """One reader's event, for all partitions of the topic. A partition without a known end has no sample; one without a
    commit has a sample that says so.
    """
    ends, starts, stable = sample.high_watermark, sample.log_start, sample.last_stable
    asked_at_ms, committed, is_active = positions
    planned = tuple(range(sample.partitions)) if sample.partitions else tuple(sorted(ends))
    at_ms, topic_id = sample.sampled_at_ms, sample.topic_id
    samples = tuple(
        (
            p,
            LagSample(committed.get(p), asked_at_ms, ends[p], at_ms, starts.get(p), stable.get(p), topic_id, is_active),
        )
        for p in planned
        if p in ends
    )
    return ReaderSampled(reader, planned, samples)


def _remembered(
    before: _SeenTopic | None, committed: Mapping[str, Mapping[int, int]], has_members: bool | None, now_s: float
) -> _SeenTopic:
    is_memberless = has_members is False
    moved_s = before.moved_s if before is not None else None
    # The offsets moved between two looks without members. Only then: a member that left in between may have committed
    # last.
    if before is not None and is_memberless and before.is_memberless and committed != before.committed:
        moved_s = now_s
    return _SeenTopic(committed, is_memberless, moved_s)


def _is_read_alone(seen: _SeenTopic, now_s: float) -> bool:
    """Whether its offsets moved lately without members: consumers that assign partitions themselves never join the
    group.
    """
    return seen.is_memberless and seen.moved_s is not None and now_s - seen.moved_s <= COMMITS_ALONE_S


async def _each(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """All answers or failures, in order; after the deadline a missing answer counts as a timeout."""
    tasks = [asyncio.ensure_future(question) for question in questions]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=DEADLINE_S)
        for task in late:
            task.cancel()
    return list(await asyncio.gather(*tasks, return_exceptions=True))
