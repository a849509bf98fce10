"""Measures recoveryd on this machine, each number next to what it is compared with in the same run. `python -m bench
--help`.

One module per measurement, as `__main__` lists them; the other modules are shared by them. Nothing here is part of the
product, and nothing of the product is changed for a measurement: real broker, real Spark workers, real daemon
processes. Start at `__main__`, then `chunks` for a short one.
"""
