"""The dashboards as Python: one module each, built from `parts`. Only the names of `recoveryd.metrics.book` are queried; a test says so."""
