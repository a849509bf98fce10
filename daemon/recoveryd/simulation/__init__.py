"""A fluid model of a busy broker, to judge throttle policies before they meet a real one.

The controller that runs here is `recoveryd.live.law.controller.step`, the same function the daemon calls; only its
surroundings are simulated. Pure Python, deterministic by seed. It shows which policy is better, not exact percentages:
one bottleneck, no page cache, no skew, latency by formula or as `make response` measured it. Start at `run`, then
`gate`.
"""
