"""A real Prometheus, and pictures of dashboards drawn from its answers: plain SVG and HTML, turned into PNG by
Chromium. No Grafana server is needed.
"""
