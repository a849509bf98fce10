"""How far behind consumer groups are: windows of positions and ends, and a verdict on each partition and group. Start
at `evaluate`.
"""
