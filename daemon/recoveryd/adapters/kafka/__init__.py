"""Kafka: the journal, the control topic and the progress of lanes; the ledger; questions to clusters about topics,
offsets, groups and units; quotas and the canary; and what steps of workflows do (`steps`).

Everything that blocks runs in worker threads with a deadline, and an error names what was tried and which right is
missing. Clients that copy records are in `recoveryd_jobs`, not here. Start at `clusters` and `journal`.
"""
