"""All metrics together (`book`): those that each capability brings, and the daemon's own (`definitions`).

A metric of a capability is defined and measured in its folder, in `metrics` and `measures`.
`adapters.http.metrics_page` exposes all of them. Nothing here keeps a count. Start at `book`.
"""
