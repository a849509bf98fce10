"""A lane: one task that copies a fixed set of partitions, chunk after chunk, each with its receipts in one transaction.
Whether its last chunk counts is told by the receipts alone (`recoveryd_jobs.receipts`). It decides nothing about the
recovery: rate, pause and stop come with directives. Start at `life`, then `loop`; `mending`, `lost_markers` and
`markers` are about brokers that forgot how a transaction ended.
"""
