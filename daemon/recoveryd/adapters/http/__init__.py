"""HTTP: webhooks out, queries to a Prometheus, the page of our own metrics.

Whether and when to call is decided by the core, in `watches` and `collectors`; the daemon's own API is in
`runtime.health`. Start at `webhooks`.
"""
