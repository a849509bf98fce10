"""Dashboards, alert rules and pictures, and the real Prometheus they are tried on."""
