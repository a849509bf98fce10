"""The kind of recovery that copies: its command, its plan, what preflight finds about the target, and the job that
lanes start from. Start at `kind`.
"""
