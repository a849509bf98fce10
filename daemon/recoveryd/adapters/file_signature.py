"""What a file looks like from outside: whether it was written again shows without reading it."""

from pathlib import Path

Signature = tuple[int, int, int]


def signature_of(file: Path) -> Signature | None:
    """When written, how long, which one; None = not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
