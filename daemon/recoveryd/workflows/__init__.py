"""What is done to units, step by step, each step checked, read back and undoable: plans, steps, what they change and how
it is put back. Pure; what a step really does is in `adapters/kafka/group_admin.py`.

Start at `steps.py`; `reset.py` is the plan of one workflow, `positions.py` says where a group shall stand.
"""
