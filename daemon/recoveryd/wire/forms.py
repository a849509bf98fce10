"""The forms of records on the control topic: a pydantic model for the data of each command and signal, and the value
that it becomes.

Codec, schemas and docs derive from these models; the core has dataclasses of its own, and `to_core` makes them. Rules
that need facts about clusters (does the topic exist, is the range inside the log) are in the core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from recoveryd.kernel.commands import Command, Meta
from recoveryd.wire.fields import Reason, Strict


class CommandData(Strict):
    """The fields that the data of every command has."""

    reason: Reason


D = TypeVar("D", bound=CommandData)
S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class VerbForm:
    """The model of a verb's data, what the verb does in one line, and how validated data becomes a command. Made by
    `verb_form`.
    """

    model: type[CommandData]
    effect: str
    make: Callable[[Meta, Any], Command]


@dataclass(frozen=True, slots=True)
class SignalForm:
    """The model of a signal's data, what it says in one line, and how validated data becomes a signal. Made by
    `signal_form`.
    """

    model: type[BaseModel]
    meaning: str
    make: Callable[[Any], object]


def verb_form(model: type[D], effect: str, make: Callable[[Meta, D], Command]) -> VerbForm:
    return VerbForm(model, effect, make)


def signal_form(model: type[S], meaning: str, make: Callable[[S], object]) -> SignalForm:
    return SignalForm(model, meaning, make)
