"""How signals look on the control topic, and lag and budgets on the HTTP API."""
