"""The kind of recovery that copies: its command, its plan, what preflight finds about the target, and the job that
lanes start from.

What it shares with other kinds (states, attempts, pausing, the ledger) is in `recovery`. Start at `kind`, then `plan`.
"""
