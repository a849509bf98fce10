"""The proof: source and target are read again and compared, receipts are audited against what was seen. Shares with the lanes only record types and the
pure selection. Start at `tasks`, then `judge`.
"""
