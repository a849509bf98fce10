"""A fluid model of a busy broker, to judge throttle policies before they meet a real one.

The controller that runs here is `recoveryd.live.law.controller.step`, the same function the daemon calls; only the world around it is simulated. Pure
Python, deterministic by seed. Rank order is the claim, absolute percentages are not: one bottleneck, no page cache, no skew, latency by formula.
"""
