"""What no capability owns: the pure step from state and event to decision, and the types that all share.

Here are the draft of a decision, the envelope of commands, the state with one slice per capability, the catalogue of
errors. No noun of a capability, no clock, no I/O. Start at `decide`, then `capability`.
"""
