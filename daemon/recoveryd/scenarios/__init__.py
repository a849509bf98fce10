"""The table of scenarios: what people want to do with recoveryd, how it is done, and whether a test shows that it
works.

The rows are written by hand, one YAML file per kind of need; `proofs.json` is made from the marks of the tests by
`python -m tools.generate`. Nothing here decides anything: `recoveryctl scenarios` and docs/scenarios.md show it. Start
at `table.py`.
"""
