"""The dashboards as Python: one module each, built from `parts`. Only the names of `recoveryd.metrics.definitions` are queried; a test says so."""
