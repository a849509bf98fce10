"""Measures recoveryd on this machine, each number next to what it is compared with in the same run. `python -m bench --help`.

One module per measurement (`replay`, `chunks`, `start`, `throttle`, `daemon_rate`, `daemon_size`, `decide`, `policies`); the others are what they stand on. Nothing here is part of
the product, and nothing of the product is changed for a measurement: real broker, real Spark workers, real daemon processes.
"""
