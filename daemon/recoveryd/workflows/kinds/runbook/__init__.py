"""The workflow that takes an application that stands still back to one that is verified, in seven steps.

`truths` compares what offsets, state and sink say; `blocks` are the five things that have to be known; `paths` proposes
a way and makes its steps; `gates` are what has to be well in the end; `report` is its one page. `kind` puts them
together. How a step is taken, repeated or put back is not here, but in `workflows.machine`. Start at `planning`.
"""
