"""The wire form of signals on the control topic (`signals`), and of lag and budgets on the HTTP API (`page`).

No rule lives here. Start at `signals`.
"""
