"""The kind of recovery that only reads: the proof of any copy, whoever made it. Its command, its plan and its job.

The proof itself runs in `recoveryd_jobs.verify`. Start at `kind`, then `plan`.
"""
