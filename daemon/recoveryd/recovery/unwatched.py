"""What recoveries in controller mode may take of a cluster where nothing is protected: no controller decides there, and
the most that all of them may take of a cluster holds all the same.

Each step tells them no more together than that, also those that reach such a cluster from a protected one: what their
controller grants is what they want of it at most. Until the next step one that begins or goes on has its floor besides,
and a small change of a grant may wait for the next lease, as it does elsewhere. A fixed rate is not counted.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.live.budget_shares import Claim, Spread, share_over_domains
from recoveryd.live.budgets import Grant, Mode
from recoveryd.recovery.limits import ceiling_bytes_per_s, claim_of, clusters_of, mode_of
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.params import Params

SHARED: Final = "no protected cluster is touched: its part of control.max_bytes_per_s, which others have too"
_ALONE: Final = "no protected cluster is touched: its own ceiling"
_BOUNDED: Final = "its other cluster protects nothing: its part of control.max_bytes_per_s there, which others have too"


def unwatched_rates(
    params: Params, recoveries: Iterable[Recovery], grants: Mapping[str, Grant] | None = None
) -> dict[str, float]:
    """Bytes/s by recovery, of those in controller mode that touch a cluster where nothing is protected: what all may
    take of each such cluster is divided among them. `grants`: what controllers allow those that touch a protected one
    too. Floors that do not fit are scaled, so each gets something.
    """
    controlled = [
        (r, parts)
        for r in recoveries
        if mode_of(r.limits, r.spec, params) is Mode.CONTROLLED and (parts := _parts(r, params))
    ]
    floor = params.control.min_bytes_per_s / max(1, len(controlled))
    spreads = {r.id: Spread(_claim(r, params, floor, (grants or {}).get(r.id)), parts) for r, parts in controlled}
    clusters = {cluster for spread in spreads.values() for cluster in spread.parts}
    return share_over_domains(dict.fromkeys(clusters, params.control.max_bytes_per_s), spreads)


def bounded(grants: Mapping[str, Grant], rates: Mapping[str, float]) -> dict[str, Grant]:
    """The grants with no more than these rates, by recovery, bytes/s."""
    return {name: _at_most(grant, rates.get(name, math.inf)) for name, grant in grants.items()}


def with_share(recovery: Recovery, share: float, params: Params) -> Recovery:
    """The recovery, which touches nothing protected, with its share in bytes/s."""
    rule = SHARED if share < ceiling_bytes_per_s(recovery.limits, params) else _ALONE
    return replace(recovery, effective_bytes_per_s=share, rule=rule)


def _parts(recovery: Recovery, params: Params) -> dict[str, float]:
    """Its clusters where nothing is protected."""
    return {cluster: 1.0 for cluster in clusters_of(recovery.spec) if cluster not in params.live.domains}


def _claim(recovery: Recovery, params: Params, floor: float, grant: Grant | None) -> Claim:
    claim = claim_of(recovery, params, floor)
    if grant is None or grant.bytes_per_s is None:
        return claim
    return replace(claim, ceiling=min(claim.ceiling, grant.bytes_per_s))


def _at_most(grant: Grant, most: float) -> Grant:
    if grant.bytes_per_s is None or grant.bytes_per_s <= most:
        return grant
    return replace(grant, bytes_per_s=most, why=_BOUNDED)
