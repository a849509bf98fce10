"""Live traffic: what is known of it, how hard it is pressed, and how much a replay may take.

Here live the signals, lag verdicts (`lag`), pressure, the law of the controller (`law`) and the budgets that are shared out. Grants are returned, nothing is
applied: what becomes of them is `recovery.throttling`'s. Pure. Start at `budgets`, then `law.controller`.
"""
