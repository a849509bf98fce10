"""How long a replay takes, whether it ever catches up, what it costs, and whether retention is faster.

It takes numbers and gives numbers and verdicts, and does not know what a recovery is: `recovery.forecast_plan` and
`recovery.forecast_run` ask for forecasts of recoveries. Pure. Start at `completion`, then `outlook`.
"""
