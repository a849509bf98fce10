"""The kind of recovery that only reads: the proof of any copy, made by us or not. Its command, its plan and its job. Start at `kind`."""
