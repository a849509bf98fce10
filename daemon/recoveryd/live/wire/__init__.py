"""The wire form of signals on the control topic, and of lag and budgets on the HTTP API."""
