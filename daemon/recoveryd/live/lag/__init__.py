"""How far consumer groups are behind: windows of positions and ends, and a verdict on each partition and group. Start at `evaluate`."""
