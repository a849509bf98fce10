"""A cut through an application: where it stood in its inputs, what its state was there, and how far it had written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from recoveryd.kernel.written import TimeMs, named
from recoveryd.workflows.model.actions import TopicForm

STOOD: Final = "the application stood still: its group had no members when offsets and ends were read"
_EARLIER: Final = (
    f"{STOOD}; it was taken by an earlier release, which did not note how the application had ended: the cut is exact if "
    "that was stopped cleanly or is exactly once"
)


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
    if the application was stopped cleanly, which nobody saw.
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

    def __post_init__(self) -> None:
        """Earlier releases called each cut of a stopped application exact, and said no more of it than this."""
        if self.is_exact and self.topics and self.why == STOOD:
            object.__setattr__(self, "is_exact", False)
            object.__setattr__(self, "is_exact_if_clean", True)
            object.__setattr__(self, "why", _EARLIER)
