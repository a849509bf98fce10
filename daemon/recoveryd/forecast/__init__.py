"""How long a replay takes, whether it ever catches up, what it costs, and whether retention is faster.

Numbers in, numbers and verdicts out; nothing here knows a recovery. What a recovery asks is made in `recovery.forecast_plan` and `recovery.forecast_run`.
Pure. Start at `completion`, then `outlook`.
"""
