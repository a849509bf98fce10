"""The kind of recovery that only reads: the proof of any copy, whoever made it. Its command, its plan and its job.
Start at `kind`.
"""
