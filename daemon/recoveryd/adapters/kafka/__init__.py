"""Kafka: the journal, questions to clusters, the ledger, quotas, the canary. Start at `clusters` and `journal`."""
