"""From what was typed to a control record, its answer, and the wait for what becomes of it.

Kafka clients and HTTP are imported when a verb connects, not before. No verb lives here. Start at `connected`, then
`sending`.
"""
