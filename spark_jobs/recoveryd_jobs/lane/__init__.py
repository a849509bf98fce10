"""A lane: one task that copies a fixed set of partitions, chunk after chunk, each with its receipts in one transaction.
Start at `life`, then `loop`.
"""
