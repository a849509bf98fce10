"""Rich's console as we use it. Importing this module loads Rich."""

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from recoveryd.cli.render.harmless import harmless


class HarmlessConsole(Console):
    """Takes brackets and colons for text and shows escape sequences, because what it prints was written by others."""

    def __init__(self, file: TextIO, width: int | None, *, colour: bool = True, quiet: bool = False) -> None:
        super().__init__(
            file=file,
            width=width,
            highlight=False,
            soft_wrap=False,
            markup=False,
            emoji=False,
            no_color=None if colour else True,  # None: as NO_COLOR says
            quiet=quiet,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich does. Its own control sequences are in segments of their own, apart from text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)
