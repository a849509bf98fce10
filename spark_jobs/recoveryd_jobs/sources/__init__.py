"""Where records come from: committed records of chosen partitions, and how far they were read."""
