"""One module per verb or group of verbs; `app` puts them together."""
