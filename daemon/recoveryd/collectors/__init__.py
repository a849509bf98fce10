"""Looks at the world from time to time and tells the loop what it saw: offsets and groups, produce latency, answers of a Prometheus.

Each collector is a loop of its own with a period. None of them raises for a world that does not answer, and none decides: what was not seen is not told, so
that it ages. They ask only while this daemon leads.
"""
