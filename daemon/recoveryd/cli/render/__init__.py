"""What people see: tables, numbers, progress.

Nothing here asks or sends anything. What users see of a status record is decided once, in `showing`; all text goes out
through `output`, which makes it harmless to a terminal. Start at `output`, then `showing`.
"""
