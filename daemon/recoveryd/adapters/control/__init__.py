"""Who stops and starts the applications of units: one module per kind of `control`, behind one port.

What may run or be called stands in the config alone; commands only name a unit. Nothing here decides whether an
application should run: that is asked for, again and again, and each adapter says how far it is.
Start at `make`, which chooses the adapter, then `process`.
"""
