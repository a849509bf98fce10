"""All metrics together (`book`): those that each capability brings, and the daemon's own (`definitions`). How they are exposed is `adapters.http.metrics_page`'s."""
