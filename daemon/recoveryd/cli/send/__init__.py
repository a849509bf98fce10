"""From what was typed to a control record, its answer, and the wait for what becomes of it."""
