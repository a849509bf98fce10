"""What has to fit together in a tuple of capabilities before anything is decided: commands and the functions that take
them, their forms on the wire, events and the functions that hear them.

A mistake here is one of the program and not of an input, so it is told when the daemon is put together, not when the
first such command comes. Nothing is looked up here: that is `decide`'s.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recoveryd.kernel.capability import Capability, Verb
from recoveryd.kernel.events import (
    BecameLeader,
    CommandNotSent,
    ControlRead,
    ControlUnread,
    Leaving,
    SignalReceived,
    Tick,
)

_Any = Capability[Any]

HEARD_BY_ALL = (Tick, BecameLeader, Leaving, SignalReceived)
# Who sends commands needs to know of the first; whether the control topic is read stands in the state as well.
HEARD_IF_WANTED = (CommandNotSent, ControlRead, ControlUnread)


def check_wiring(capabilities: Sequence[_Any]) -> None:
    """Raises `ValueError`, which names the capability and the class, for the first thing that does not fit."""
    for problem in (*_of_verbs(capabilities), *_of_forms(capabilities), *_of_events(capabilities)):
        raise ValueError(problem)


def _of_verbs(capabilities: Iterable[_Any]) -> Iterator[str]:
    """A command has one capability that begins it, or for each capability at most one function that steers it."""
    taken: list[tuple[str, Verb[Any]]] = []
    for capability in capabilities:
        for verb in capability.verbs:
            same = [(name, other) for name, other in taken if other.command is verb.command]
            yield from _second(capability.name, verb, same)
            taken.append((capability.name, verb))


def _second(mine: str, verb: Verb[Any], same: Sequence[tuple[str, Verb[Any]]]) -> Iterator[str]:
    command = verb.command.__name__
    begun = [name for name, other in same if other.is_beginning]
    steering = [name for name, other in same if not other.is_beginning]
    if verb.is_beginning and begun:
        yield f"{command} has two that begin it: {begun[0]}, {mine}"
    elif verb.is_beginning and steering:
        yield f"{command} is begun by {mine} and steered by {', '.join(steering)}"
    elif begun:
        yield f"{command} is begun by {begun[0]} and steered by {mine}"
    elif mine in steering:
        yield f"{command} is steered twice by {mine}"


def _of_forms(capabilities: Sequence[_Any]) -> Iterator[str]:
    """Each command has one form, by which it is read, and is taken by the capability that brings the form."""
    written: dict[str, str] = {}
    for capability in capabilities:
        taken = {verb.name for verb in capability.verbs}
        for name in capability.forms:
            if name in written:
                yield f"{name} has two forms: of {written[name]}, of {capability.name}"
            written[name] = capability.name
            if name not in taken:
                yield f"{capability.name} has a form of {name} and does not take it"
        if capability.signals and not any(handler.event is SignalReceived for handler in capability.handlers):
            yield f"{capability.name} has forms of signals and does not hear any"
    for capability in capabilities:
        for verb in capability.verbs:
            if verb.name not in written:
                yield f"{capability.name} takes {verb.name}, which has no form"


def _of_events(capabilities: Iterable[_Any]) -> Iterator[str]:
    """An event that nobody hears is lost, and one that nobody defines is never seen."""
    defined = {*HEARD_BY_ALL, *(event for capability in capabilities for event in capability.events)}
    heard = {handler.event for capability in capabilities for handler in capability.handlers}
    if unheard := [event.__name__ for event in defined if event not in heard]:
        yield f"no capability handles {', '.join(sorted(unheard))}"
    if unknown := [event.__name__ for event in heard if event not in {*defined, *HEARD_IF_WANTED}]:
        yield f"no capability defines {', '.join(sorted(unknown))}"
