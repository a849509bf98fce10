"""The dashboards as Python: one module each, built from `parts`. They query only the metrics of
`recoveryd.metrics.book`; a test checks that.

No number is computed here, only asked for: an expression that several panels need is in `queries`. Start at `boards`,
then `parts`.
"""
