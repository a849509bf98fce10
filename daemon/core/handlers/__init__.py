"""One module per kind of event. A handler writes into the draft what the event means; `daemon.core.steer` then compares wanted and seen."""
