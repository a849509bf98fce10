"""Kafka: the journal, questions to clusters, the ledger, quotas, the canary.

Everything that blocks runs in worker threads with a deadline, and an error names what was tried and which right is
missing. Clients that copy records are in `recoveryd_jobs`, not here. Start at `clusters` and `journal`.
"""
