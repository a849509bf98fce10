"""HTTP: webhooks out, queries to a Prometheus, the page of our own metrics."""
