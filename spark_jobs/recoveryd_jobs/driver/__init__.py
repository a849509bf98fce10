"""The driver of an attempt: session, task slots, the jobs it starts and what it reports. Records never pass through it,
and it decides nothing about the recovery: it does what directives say. What lanes and the proof do is in `lane` and
`verify`. Start at `driver`, then `kinds`.
"""
