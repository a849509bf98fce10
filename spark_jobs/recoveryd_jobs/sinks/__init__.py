"""Where records go: a transactional producer, with the rules for when Kafka does not answer.

What goes into a transaction, and when it is committed, is decided in `lane`. Start at `transactional`.
"""
