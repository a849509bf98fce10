"""All metrics together (`book`): those that each capability brings, and the daemon's own (`definitions`).
`adapters.http.metrics_page` exposes them.
"""
