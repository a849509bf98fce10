"""What recoveries in controller mode may take where nothing is protected: no controller decides there, and the most
that all of them may take of a cluster holds all the same.
"""

from collections.abc import Iterable
from typing import Final

from recoveryd.live.budget_shares import Spread, share_over_domains
from recoveryd.live.budgets import Mode
from recoveryd.recovery.limits import claim_of, mode_of, touched_domains
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.params import Params

SHARED: Final = "no protected cluster is touched: its part of control.max_bytes_per_s, which others have too"


def unwatched_rates(params: Params, recoveries: Iterable[Recovery]) -> dict[str, float]:
    """By recovery, of those in controller mode that touch nothing protected: what all of a cluster may take together is
    divided among them.
    """
    alone = [
        r
        for r in recoveries
        if mode_of(r.limits, r.spec, params) is Mode.CONTROLLED and not touched_domains(r.spec, params)
    ]
    floor = params.control.min_bytes_per_s / max(1, len(alone))
    spreads = {r.id: Spread(claim_of(r, params, floor), _clusters(r)) for r in alone}
    clusters = {cluster for spread in spreads.values() for cluster in spread.parts}
    return share_over_domains(dict.fromkeys(clusters, params.control.max_bytes_per_s), spreads)


def _clusters(recovery: Recovery) -> dict[str, float]:
    """Each byte passes through both, and counts fully in both."""
    return dict.fromkeys((recovery.spec.source.cluster, recovery.spec.target.cluster), 1.0)
