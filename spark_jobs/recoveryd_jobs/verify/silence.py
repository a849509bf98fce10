"""For how long a reader of the proof has come no further, and what is to be done about it. One clock for those that
read whole ranges and for the closer look.
"""

PROBE_S = 20.0


class Silence:
    """Only time spent in the client counts: a reader that is told to wait is not silent."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.broken()

    def broken(self) -> None:
        """The reader came further."""
        self._silent_s, self._probed_s, self._anew_s = 0.0, 0.0, PROBE_S

    def lasts(self, seconds: float) -> None:
        """It did not, for so much longer."""
        self._silent_s += seconds

    @property
    def is_too_long(self) -> bool:
        return self._silent_s > self._patience_s

    def wants_probe(self) -> bool:
        """Whether to ask now if the topic is still there, which the Kafka client does not report."""
        if self._silent_s <= self._probed_s + PROBE_S:
            return False
        self._probed_s = self._silent_s
        return True

    def wants_new_client(self) -> bool:
        """Whether to go on with a new one: one that was assigned while a broker came back to itself may hear no more of
        a partition (librdkafka 2.16).
        """
        if self._silent_s <= self._anew_s:
            return False
        self._anew_s *= 3  # a slow network may need longer for what the new one asks for
        return True
