"""How far behind consumer groups are: windows of positions and ends, and a verdict on each partition and group.

A lag that is not fully known is never zero here. What the controller makes of a lag is in `live.pressure`. Start at
`evaluate`.
"""
