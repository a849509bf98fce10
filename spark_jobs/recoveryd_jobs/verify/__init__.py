"""The proof: source and target are read again and compared, and receipts are checked against what was read. It shares
with the lanes only record types and the pure selection. Start at `tasks`, then `judge`.
"""
