"""Which topics are held, folded from the records of the status topic. Pure.

The topic is compacted: the newest record of a key is the whole truth about it. A topic is held while a record of the
kind `hold` says `running` and names it; that is so whether a daemon runs or not.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownHold:
    """A hold that goes on."""

    id: str
    topics: frozenset[str]
    owner: str = ""
    reason: str = ""


class HoldBook:
    """Holds on one of the clusters that the daemon's config names."""

    def __init__(self, cluster: str = "main") -> None:
        self._cluster = cluster
        self._holds: dict[str, KnownHold] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record of the status topic, in the order of its partition."""
        if key is None:
            return
        name = key.decode(errors="replace")
        found = None if value is None or b'"hold"' not in value else self._read(name, value)
        if found is None:
            self._holds.pop(name, None)
        else:
            self._holds[name] = found

    def held(self, topics: Iterable[str]) -> dict[str, frozenset[str]]:
        """The ids of the holds on each of these topics that is held."""
        wanted = frozenset(topics)
        found: dict[str, set[str]] = {}
        for hold in self._holds.values():
            for topic in hold.topics & wanted:
                found.setdefault(topic, set()).add(hold.id)
        return {topic: frozenset(ids) for topic, ids in found.items()}

    def get(self, hold_id: str) -> KnownHold | None:
        return self._holds.get(hold_id)

    def _read(self, name: str, value: bytes) -> KnownHold | None:
        try:
            document = json.loads(value)
            if document["kind"] != "hold":
                return None
            hold = document["hold"]
            if document["state"] != "running" or hold["cluster"] != self._cluster:
                return None
            topics = frozenset(map(str, hold["topics"]))
        except (ValueError, KeyError, TypeError):
            log.warning("the status record %s could not be read; what it holds is not known", name, exc_info=True)
            return self._holds.get(name)  # what it said before is the best that is known
        return KnownHold(name, topics, *_who(document.get("command")))


def _who(command: Any) -> tuple[str, str]:
    if not isinstance(command, Mapping):
        return "", ""
    return str(command.get("source", "")), str(command.get("reason", ""))
