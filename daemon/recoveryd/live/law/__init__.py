"""The law of the controller: readings become pressure, rules in order of severity choose a move, the move changes one
budget. Start at `controller`, then `rules`.
"""
