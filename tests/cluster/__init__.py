"""Recoveries on three secured brokers: SASL_SSL, ACLs, replication factor 3, min ISR 2."""
