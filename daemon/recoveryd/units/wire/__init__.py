"""What is exchanged with services that stop and start the applications of units: what they are sent, what they answer.

No rule lives here; who calls them is `adapters.control.webhook`. Start at `control`.
"""
