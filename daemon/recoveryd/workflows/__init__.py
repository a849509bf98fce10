"""What is done to units, step by step, each step checked, read back and undoable. Pure; what a step really does is in
`adapters/kafka/steps`.

    model/    what is said of a workflow: its spec, facts, plan, actions, events and record
    machine/  one step after the other, for any kind: commands, planning, waiting, children, undoing
    kinds/    what each kind plans: reset, reprocess, savepoints, upgrade, runbook
    wire/     what they look like outside

Each imports only those above it, `wire/` all of them. Start at `machine/steps.py`; a new kind is a module in `kinds/`.
"""
