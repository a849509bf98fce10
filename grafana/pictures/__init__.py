"""A real Prometheus, and pictures of dashboards drawn from its answers by matplotlib. No Grafana server is needed.

Nothing here knows what a panel is about: it draws what the files of `dashboards` say. Start at `real_run` for where the
answers come from, at `page` for how a dashboard becomes a picture.
"""
