"""What is done to units, step by step, each step checked, read back and undoable: plans, steps, what they change and how
it is put back. Pure; what a step really does is in `adapters/kafka/steps`.

Start at `steps.py`; `kinds.py` says what a workflow is made of, `reset.py` is one of them, `positions.py` says where a
group shall stand.
"""
