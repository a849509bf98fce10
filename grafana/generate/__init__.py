"""The dashboards as Python: one module each, built from `parts`. Only the names of `daemon.core.metric_defs` are queried; a test says so."""
