"""The kinds of workflows: each is a value that says what its command means, what has to be known, and which steps
follow from it. What several of them plan alike (notes, earlier positions) lies beside them. Nothing here takes a step.
Start at `reset.py`, the smallest; `all_kinds.py` lists them.
"""
