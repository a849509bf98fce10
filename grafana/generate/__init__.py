"""The dashboards as Python: one module each, built from `parts`. They query only the metrics of
`recoveryd.metrics.book`; a test checks that.
"""
