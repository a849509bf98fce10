"""Live protection's slice of the state, and its view of a step. All of it is lost at a restart; a new daemon fills it
again by sampling.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.live.events import TopicSample
from recoveryd.live.params import LiveParams
from recoveryd.live.protecting import Protecting

SAMPLES_KEPT_MS = 3_600_000

Topic = tuple[str, str]  # cluster and name


@dataclass(frozen=True, slots=True)
class SampleHistory:
    """The last few offset samples of one topic, oldest first (bounded by `LiveParams.sample_history`)."""

    samples: tuple[TopicSample, ...] = ()

    @property
    def newest(self) -> TopicSample | None:
        return self.samples[-1] if self.samples else None


@dataclass(frozen=True, slots=True)
class LiveSlice:
    """`samples`: the last offset samples of each topic that is sampled."""

    protecting: Protecting = Protecting()
    samples: Mapping[Topic, SampleHistory] = field(default_factory=dict)


LIVE = Slot("live", LiveSlice())


class LiveDraft(View):
    """`protecting` may be replaced; its last value goes into the new state."""

    def __init__(self, draft: Draft, params: LiveParams) -> None:
        super().__init__(draft)
        self.params = params
        self._before = draft.before.of(LIVE)
        self.protecting = self._before.protecting
        self._samples: dict[Topic, SampleHistory] = {}
        self._brokers: dict[str, frozenset[int]] = {}

    def history(self, topic: Topic) -> SampleHistory:
        return self._samples.get(topic) or self._before.samples.get(topic) or SampleHistory()

    def brokers_of(self, cluster: str) -> frozenset[int]:
        """The brokers that lead any sampled partition of a cluster, by the newest samples from before this step. Each
        recovery asks for them, and there may be many partitions.
        """
        found = self._brokers.get(cluster)
        if found is None:
            newest = [h.newest for (where, _), h in self._before.samples.items() if where == cluster]
            leaders = (broker for sample in newest if sample for broker in sample.leaders.values())
            found = self._brokers[cluster] = frozenset(broker for broker in leaders if broker >= 0)
        return found

    def remember(self, sample: TopicSample) -> None:
        """Add a sample of a topic; of too many the oldest is dropped."""
        topic = sample.cluster, sample.topic
        self._samples[topic] = SampleHistory((*self.history(topic).samples, sample)[-self.params.sample_history :])

    def finish(self, state: CoreState) -> CoreState:
        """Also drops topics that were not sampled for an hour."""
        samples = self._before.samples
        if self._samples:
            samples = {k: h for k, h in {**samples, **self._samples}.items() if self._is_fresh(h)}
        elif self.protecting is self._before.protecting:
            return state
        return state.having(LIVE, LiveSlice(self.protecting, samples))

    def _is_fresh(self, history: SampleHistory) -> bool:
        newest = history.newest
        return newest is not None and self.now_ms - newest.sampled_at_ms <= SAMPLES_KEPT_MS
