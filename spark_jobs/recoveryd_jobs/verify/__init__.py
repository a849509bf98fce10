"""The proof: source and target are read again and compared, and receipts are checked against what was read. It shares
with the lanes only record types and the pure selection: a mistake of the lanes must not hide itself. Nothing here
writes to source, target or receipts. Start at `tasks`, which has the steps in order, then `sides` for what is compared
and `judge` for the verdict.
"""
