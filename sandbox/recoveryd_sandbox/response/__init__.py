"""The measured response: how live traffic answers to a replay at several rates, each held for a while.

The simulator takes what is measured here as its plant (`recoveryd.simulation.measured`). Start at `__main__`.
"""
