"""A unit begins with the state and the offsets of a cut, under its own application id or the same.

`checks` says what forbids it and what its owner has to know; `steps` are those of the plan and of the way back; `noted`
makes the rest of them once it is known where the group stands; `kind` puts them together. Start at `kind`.
"""
