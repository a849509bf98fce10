"""The law of the controller: readings become pressure, rules in order of severity choose a move, the move changes one
budget.

It knows domains and signals and no recovery; `live.budgets` divides what it grants. Start at `controller`, which has
the rules by number, then `rules`.
"""
