"""Live traffic: what is known of it, how close it is to its SLOs, and how much replays may take.

Here are the signals, lag verdicts (`lag`), pressure, the law of the controller (`law`) and the shares of the budgets.
This package returns grants and applies none of them; `recovery.throttling` does. Pure. Start at `budgets`, then
`law.controller`.
"""
