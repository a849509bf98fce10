"""Protected consumer groups that read nothing on purpose. A workflow has stopped their application, or works on it
while it has no members. Their lag grows whatever a replay does, so it neither holds a rate nor refuses a start; all
else that is protected in the domain counts on. Members end it, whatever the workflow takes for stopped: who reads may
be harmed.

Workflows know recoveries, and not the other way round: who is stopped is handed in (`draft.Beside`).
"""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.live.lag.window import Window
from recoveryd.live.law.types import ControllerParams
from recoveryd.recovery.draft import RecoveryDraft

LeftOut = Mapping[str, Mapping[str, str]]


def left_out(draft: RecoveryDraft) -> LeftOut:
    """By domain and name the protected signals that do not count now, each with why."""
    resting, worked_on = draft.groups_of_workflows()
    found: dict[str, dict[str, str]] = {}
    if not resting and not worked_on:
        return found
    book = draft.protection.protecting.book
    for reader, name in draft.params.live.protected.items():
        group, windows = (reader.cluster, reader.group), book.readers.get(reader, {})
        why = None if _has_members(windows) else resting.get(group)
        if why is None and group in worked_on and _is_empty(windows):
            why = f"{worked_on[group]}, and {reader.group} has no members"
        if why is not None:
            found.setdefault(reader.cluster, {})[name] = why
    return found


def _has_members(windows: Mapping[int, Window]) -> bool:
    """Whether the newest look at it saw some. It is not always known."""
    return any(window.is_active is True for window in windows.values())


def _is_empty(windows: Mapping[int, Window]) -> bool:
    """Whether the newest look at it saw no members."""
    return bool(windows) and all(window.is_active is False for window in windows.values())


def domains_now(draft: RecoveryDraft, out: LeftOut) -> Mapping[str, ControllerParams]:
    """The budget domains, with the signals that count."""
    domains = draft.params.live.domains
    if not out:
        return domains
    return {domain: _without(params, out.get(domain, {})) for domain, params in domains.items()}


def _without(params: ControllerParams, names: Mapping[str, str]) -> ControllerParams:
    if not names:
        return params
    kept = tuple(p for p in params.protections if p.name not in names)
    return replace(params, protections=kept, some_left_out=True, all_left_out=not kept)


def told_left_out(out: LeftOut) -> dict[str, str]:
    """By domain, the sentence of what does not count there."""
    return {domain: "; ".join(_told(names)) for domain, names in out.items()}


def _told(names: Mapping[str, str]) -> list[str]:
    return [f"{name} does not count: {why}" for name, why in sorted(names.items())]
