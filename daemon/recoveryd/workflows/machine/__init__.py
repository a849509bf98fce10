"""What carries a workflow through its steps, whatever its kind: commands and their answers, planning, one step after
the other, waits, children, holds, and the way back. Nothing here knows a kind; `kind.py` says what a kind has to offer.
Start at `steps.py`.
"""
