"""How often to ask whether something has come to be."""

_REST_SHARE, _REST_MAX_S = 3.0, 0.25


def rest_s(took_s: float, every_s: float) -> float:
    """Seconds until the next question, of which the last one took `took_s`: `every_s`, and more where an answer takes
    long, so that a busy machine is not made busier by who waits for it.
    """
    return max(every_s, min(_REST_MAX_S, _REST_SHARE * took_s))
