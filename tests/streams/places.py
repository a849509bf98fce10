"""Where the sources of the sample application are."""

from pathlib import Path

SOURCES = Path(__file__).parent / "app"
