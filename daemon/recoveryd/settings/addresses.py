"""What is taken for the address of an HTTP server."""

from urllib.parse import SplitResult, urlsplit


def http_parts(url: str) -> SplitResult | None:
    """None: it is none. Says nothing of what may stand in it besides, such as a login."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_one and url.isprintable() and " " not in url else None
