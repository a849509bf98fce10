"""A newer version of an application takes over from the older one.

`versions` compares the two; `kind` is the plan where both have one application id; `other_id` takes state and offsets
over; `online` lets the new one run beside the old one, `online_cut` is where they are exchanged, `online_back` the way
back. How a step is taken, repeated or put back is not here, but in `workflows.machine`. Start at `kind`.
"""
