"""A cut through an application: where it stood in its inputs, what its state was there, and how far it had written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.written import TimeMs, named
from recoveryd.workflows.model.actions import TopicForm


@dataclass(frozen=True, slots=True)
class CutTopic:
    """One internal topic. `copy` holds what lay in [starts, stops) of it, by partition; empty = nothing lay there. In a
    topic that `is_between` (a repartition topic) lies what was written and not read yet when the cut was made.
    `copy_id`: of the topic that was made for the copy. `copy_ends`: where each partition of it ended when it was
    verified; what lies behind came later and is none of the cut. Both are empty in cuts of an earlier release.
    """

    name: str
    copy: str
    form: TopicForm
    is_between: bool = False
    starts: Mapping[int, int] = field(default_factory=dict)
    stops: Mapping[int, int] = field(default_factory=dict)
    copy_id: str = ""
    copy_ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        return sum(stop - self.starts[p] for p, stop in self.stops.items())

    @staticmethod
    def removing_policy(configs: Mapping[str, str]) -> str | None:
        """The policy by which records may be gone from the middle of the copy, since a later one of somebody else may
        have the same key; None = there is none. `configs`: those of the copy itself. It was made with a policy of its
        own, so without one it has that of its broker.
        """
        policy = configs.get("cleanup.policy", "of its broker")
        return None if policy == "delete" else policy


@dataclass(frozen=True, slots=True)
class Cut:
    """`offsets` are those that the group had committed on inputs and intermediate topics, None = none. `ends`: where
    these and the outputs ended. `topic_ids` of inputs and intermediate topics; empty in cuts of an earlier release.
    `is_exact`: whether offsets and state are known to be of one moment; `why` says how. `is_exact_if_clean`: they are
    if the application was stopped cleanly, which nobody saw; False in cuts of an earlier release.
    """

    name: str
    unit: str
    cluster: str
    group: str
    at_ms: TimeMs = field(metadata=named("at"))
    offsets: Mapping[str, Mapping[int, int | None]] = field(default_factory=dict)
    topics: tuple[CutTopic, ...] = ()
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    is_exact: bool = False
    why: str = ""
    is_exact_if_clean: bool = False
