"""Waits until topics that were deleted are gone, and with them what a group had committed there."""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.try_time import TryTime
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.errors import ClusterProblem

_GONE_S: Final = 30.0
_POLL_S: Final = 0.1


def await_gone(admin: AdminClient, ids: Mapping[str, str], at: TryTime) -> None:
    """Raises `ClusterProblem` when a topic with its id is still there after the deadline."""
    limit_s = at.left_s(_GONE_S)
    give_up_s = time.monotonic() + limit_s
    while True:
        shapes = describe(admin, ids, TIMEOUT_S)
        left = [n for n, shape in shapes.items() if shape is not None and shape.topic_id == ids[n]]
        if not left:
            return
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{left[0]} is still there {limit_s:.0f} s after it was deleted")
        time.sleep(_POLL_S)


def await_no_commits(properties: Properties, group: str, gone: Iterable[TopicShape], at: TryTime) -> None:
    """The broker takes commits on a topic away with it. One that stayed would make the application begin in the
    middle of the next topic of that name. Raises `ClusterProblem`.
    """
    keys = [key for shape in gone for key in shape.keys] if group else []
    give_up_s = time.monotonic() + at.left_s(_GONE_S)
    while keys and (left := read_committed(properties, group, keys)):
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{group} still has a commit on {min(left)}, which was deleted")
        time.sleep(_POLL_S)
