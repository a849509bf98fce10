"""An example of a measured response, for tests: made from a table and a seed. Nothing of it was measured."""

import random

from recoveryd.simulation.response import FORMAT, Machine, Response, ResponseStep, Versions

# share of the unlimited rate: p99 of a usual second in ms, lag in s, cores of the broker
TABLE = {
    0.0: (4.0, 0.8, 0.45),
    0.05: (4.2, 0.8, 0.49),
    0.1: (4.5, 0.8, 0.53),
    0.2: (5.0, 0.8, 0.60),
    0.4: (7.0, 0.9, 0.75),
    0.6: (10.0, 1.0, 0.90),
    0.8: (28.0, 1.3, 1.05),
    1.0: (120.0, 1.8, 1.20),
}
UNLIMITED = 44e6
SECONDS = 60


def example_response(slo_p99_ms: float = 30.0) -> Response:
    rng = random.Random("example")
    runs = [(share, repeat) for repeat in (1, 2) for share in TABLE]
    rng.shuffle(runs)
    return Response(
        format=FORMAT,
        note="an example for tests; nothing was measured",
        measured_at="2026-01-01T00:00:00Z",
        machine=Machine("none", 2, 8.0, "none"),
        versions=Versions("0", "0", "0", "0", "0", "0"),
        seed=1,
        live_records_per_s=4_000.0,
        target_compression="producer",
        slo_p99_ms=slo_p99_ms,
        slo_lag_s=5.0,
        unlimited_bytes_per_s=UNLIMITED,
        steps=tuple(_step(order, repeat, share, rng) for order, (share, repeat) in enumerate(runs, start=1)),
    )


def _step(order: int, repeat: int, share: float, rng: random.Random) -> ResponseStep:
    p99_ms, lag_s, cores = TABLE[share]
    seconds = tuple(round(p99_ms * rng.lognormvariate(0.0, 0.15), 3) for _ in range(SECONDS))
    lags = tuple(round(lag_s * rng.uniform(0.6, 1.2), 3) for _ in range(SECONDS))
    return ResponseStep(
        order, repeat, share, SECONDS, share * UNLIMITED, p99_ms / 4, p99_ms / 2, p99_ms, p99_ms, max(lags), cores,
        seconds, lags,
    )  # fmt: skip
