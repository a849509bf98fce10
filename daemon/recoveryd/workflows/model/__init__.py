"""The nouns of workflows, without any behaviour that needs a decision: what commands ask for (`commands`, `spec`), what
was found (`facts`), where a group shall stand (`positions`), what a step does (`actions`), what is heard (`events`) and
wanted (`effects`), and the journaled record (`workflow`). Nothing here knows a machine or a kind. Start at
`workflow.py`.
"""
