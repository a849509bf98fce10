"""The fault matrix of docs/guarantees.md ("row" in the tests here): one test or a few per row, with real processes and
a real broker, judged by the history checker.
"""
