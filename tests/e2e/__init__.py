"""Real processes end to end, and the independent checker that judges every copy they make."""
