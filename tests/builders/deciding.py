"""The capabilities of the daemon, with the numbers of recoveries that a test gives and those beside them."""

from collections.abc import Sequence
from typing import Any

from recoveryd import capabilities
from recoveryd.kernel.capability import Capability
from recoveryd.kernel.decide import Decider
from recoveryd.params import params_beside
from recoveryd.recovery.params import Params


def make_capabilities(params: Params, webhooks: frozenset[str] = frozenset()) -> Sequence[Capability[Any]]:
    return capabilities.make_capabilities(params_beside(params, webhooks))


def make_decider(params: Params, webhooks: frozenset[str] = frozenset()) -> Decider:
    return Decider(make_capabilities(params, webhooks))
