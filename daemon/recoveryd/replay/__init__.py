"""The kind of recovery that copies: its command, its plan, what preflight thinks of the target, and the job that lanes start from. Start at `kind`."""
