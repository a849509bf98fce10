"""What all kinds of recoveries share: whatever runs as a Spark application under a lease, is paused, stopped, accounted
for and proved.

Here live the model, states, attempts, directives, the ledger, planning and the ways to end. What only one kind knows is
in `replay` or `verification`, which hand it in as a `Kind`; nothing here imports them. Pure but for `wire`. Start at
`lifecycle`, then `steer`.
"""
