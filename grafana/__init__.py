"""What an operator sees: dashboards, alert rules, provisioning, and the pictures of the docs. Nothing here is part of
the daemon.

`generate` holds the dashboards as Python and writes `dashboards/*.json`, which are committed; Grafana reads only those.
`prometheus` and `provisioning` are files to copy. `pictures` draws the panels of those JSON files from the answers of a
real Prometheus. Start at `generate/boards.py`.
"""
