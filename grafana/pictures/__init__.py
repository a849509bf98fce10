"""A real Prometheus, and pictures of dashboards drawn from its answers by matplotlib. No Grafana server is needed."""
