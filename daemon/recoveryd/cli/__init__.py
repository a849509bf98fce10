"""`recoveryctl`: the command line of recoveryd.

It writes control records and reads the status and events topics (or the HTTP API); anything it does, a Kafka producer
can do. One module per group of verbs; `app` puts them together. Importing this package loads no Kafka client, no
pydantic and no Rich: they are imported where a verb needs them, so that help and completion answer at once.
Start at `app`, then `verbs`.
"""

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command line (`sys.argv` by default) and exit with its code."""
    from recoveryd.cli.app import app  # noqa: PLC0415  (keeps `import recoveryd.cli` free of Typer)

    app(args=None if argv is None else list(argv), prog_name="recoveryctl")
