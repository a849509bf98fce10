"""Which metrics there are (`definitions`), and what they say of a state. Pure; how they are exposed is `adapters.http.metrics_page`'s."""
