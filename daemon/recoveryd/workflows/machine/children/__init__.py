"""Recoveries and workflows that a workflow has carried out: commands that it puts on the control topic, as anybody
could, and what became of them.

`looking` sends what was not seen yet and says how far all of them are; `steering` pauses, resumes and stops those that
live; `whose` tells which command and which recovery is whose. Start at `looking`.
"""
