"""Tests of dashboards, alert rules and pictures, some of them on a real Prometheus."""
