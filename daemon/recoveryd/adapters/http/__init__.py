"""HTTP: webhooks and posts about transitions out, signed; queries to a Prometheus; the bounded way to ask any API of
the config; the page of our own metrics.

Whether and when to call is decided by the core, in `watches` and `collectors`; the daemon's own API is in
`runtime.health`. Start at `webhooks`.
"""
