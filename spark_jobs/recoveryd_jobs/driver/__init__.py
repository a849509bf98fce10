"""The driver of an attempt: session, task slots, the jobs it starts and what it reports. Records never pass through it.
Start at `driver`.
"""
