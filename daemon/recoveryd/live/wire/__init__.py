"""The wire form of signals on the control topic (`signals`), and of lag and budgets on the HTTP API (`page`).

No rule lives here, and the rules of `live` import nothing of it. Start at `signals`.
"""
