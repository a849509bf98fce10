"""The fault matrix of the guarantees: one test per row (or a few), real processes and a real broker, judged by the
history checker.
"""
