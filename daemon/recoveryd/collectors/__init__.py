"""Look at the outside on a schedule and tell the loop what they saw: offsets and groups, produce latency, answers of a
Prometheus.

Each collector is a loop of its own with a period. None raises when something does not answer, and none decides. What
was not seen is not told, so the last known value ages. They ask only while this daemon leads. Start at `offsets`.
"""
