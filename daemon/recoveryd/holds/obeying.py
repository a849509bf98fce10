"""Which consumers obey a hold: what their members say themselves, and who else is in their groups and says nothing.

Consumers obey on their own (`recoveryd.client`); the daemon only tells how far they are. A group is asked for at the
broker once one of its members has spoken; a group of which nobody speaks does not know of holds, and is not listed.
"""

from collections.abc import Iterable
from typing import Final

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.events import GroupSeen, SeenMember
from recoveryd.holds.model import HeldMember, Hold, Obeys
from recoveryd.holds.signals import HeldPosition, HoldSignal, Told
from recoveryd.kernel.events import SignalReceived
from recoveryd.kernel.noun import changed

MEMBERS_MOST: Final = 500
POSITIONS_MOST: Final = 5_000  # of all members of a hold: its status record is one record


def on_hold_signal(draft: HoldDraft, event: SignalReceived) -> None:
    """A member speaks. What it says of a hold that is over, or not known, is not news."""
    signal = event.signal
    hold = draft.holds.live.get(signal.hold) if isinstance(signal, HoldSignal) else None
    if hold is None or not isinstance(signal, HoldSignal):
        return
    key = signal.group, signal.member
    before = next((m for m in hold.members if (m.group, m.member) == key), None)
    others = tuple(m for m in hold.members if m is not before)
    if signal.state is Told.LEFT:
        if before is not None:
            _keep(draft, hold, others)
        return
    if before is None and len(others) >= MEMBERS_MOST:
        return
    state = Obeys(signal.state.value)
    since_ms = before.since_ms if before is not None and before.state is state else draft.now_ms
    positions = _bounded(hold, others, signal.positions)
    now = HeldMember(signal.group, signal.member, state, since_ms, signal.client, positions)
    if now == before:
        return
    told = {"group": now.group, "member": now.member, "client": now.client, "state": state.value}
    rows = [{"topic": p.topic, "partition": p.partition, "offset": p.offset} for p in positions]
    _keep(draft, hold, (*others, now))
    why = f"{now.group}: {now.client or now.member} {_SAYS[state]}"
    draft.notice("hold_acknowledged", hold.id, {"why": why, **told, "positions": rows})
    draft.reason = why


def on_group_seen(draft: HoldDraft, event: GroupSeen) -> None:
    """Who is gone is taken off, who reads there and says nothing is put on; and a group of which all have paused is
    told once.
    """
    for hold in list(draft.holds.live.values()):
        mine = [m for m in hold.members if m.group == event.group]
        if hold.cluster == event.cluster and mine:
            _compare(draft, hold, mine, event)


def _compare(draft: HoldDraft, hold: Hold, mine: list[HeldMember], event: GroupSeen) -> None:
    there = {member.id for member in event.members}
    reading = {member.id: member for member in event.members if member.topics & frozenset(hold.topics)}
    heard_ms = range(event.asked_at_ms + 1, draft.now_ms + 1)  # what is later was heard before the clock was set back
    stay = [m for m in mine if _stays(m, there, reading, heard_ms)]
    spoke = {m.member for m in stay}
    room = max(0, MEMBERS_MOST - len(hold.members))
    silent = [
        HeldMember(event.group, m.id, Obeys.SILENT, draft.now_ms, m.client)
        for m in reading.values()
        if m.id not in spoke
    ]
    others = [m for m in hold.members if m.group != event.group]
    now = [*stay, *silent[:room]]
    has_paused = bool(stay) and not silent and all(m.state is Obeys.PAUSED for m in stay)
    is_news = has_paused and event.group not in hold.obeyed
    obeyed = tuple(sorted({*hold.obeyed, event.group} if has_paused else {*hold.obeyed} - {event.group}))
    _keep(draft, hold, (*others, *now), obeyed)
    if is_news:
        why = f"every member of {event.group} that reads there has paused"
        draft.notice("hold_obeyed", hold.id, {"why": why, "group": event.group, "members": len(now)})
        draft.reason = why


def _stays(member: HeldMember, there: Iterable[str], reading: dict[str, SeenMember], heard_ms: range) -> bool:
    if member.state is Obeys.SILENT:
        return member.member in reading
    return member.member in there or member.since_ms in heard_ms


def _keep(draft: HoldDraft, hold: Hold, members: tuple[HeldMember, ...], obeyed: tuple[str, ...] | None = None) -> None:
    """Journal the hold if anything is new; who is not spoken for any more does not count as obeying."""
    known = tuple(sorted(members, key=lambda m: (m.group, m.member)))
    groups = {m.group for m in known}
    heard = hold.obeyed if obeyed is None else obeyed
    kept = tuple(group for group in heard if group in groups and _has_paused(known, group))
    if (known, kept) != (hold.members, hold.obeyed):
        draft.put_hold(changed(hold, draft.now_ms, members=known, obeyed=kept))


def _has_paused(members: Iterable[HeldMember], group: str) -> bool:
    return all(m.state is Obeys.PAUSED for m in members if m.group == group)


def _bounded(hold: Hold, others: Iterable[HeldMember], positions: tuple[HeldPosition, ...]) -> tuple[HeldPosition, ...]:
    """Positions in topics of the hold, as far as there is room for them."""
    room = max(0, POSITIONS_MOST - sum(len(m.positions) for m in others))
    held = {*hold.topics, *hold.released}
    return tuple(sorted((p for p in positions if p.topic in held), key=lambda p: (p.topic, p.partition)))[:room]


_SAYS: Final = {Obeys.DRAINING: "finishes what it has", Obeys.PAUSED: "has paused"}
