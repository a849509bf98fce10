"""Where records come from: committed records of chosen partitions, and how far they were read.

Which of them are copied is decided in `lane` and `selection`. Start at `range_reader`.
"""
