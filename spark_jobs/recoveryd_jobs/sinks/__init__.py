"""Where records go: a transactional producer, with the rules for when Kafka does not answer.

What goes into a transaction is decided in `lane`. Start at `transactional`.
"""
