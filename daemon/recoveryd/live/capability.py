"""Live protection as a capability: it takes no command; it handles events, and other capabilities read its slice."""

from recoveryd.kernel.capability import Capability, on
from recoveryd.kernel.events import SignalReceived
from recoveryd.live.events import OffsetsSampled, ReaderSampled, ReadingTaken
from recoveryd.live.measures import make_measures
from recoveryd.live.on_live import on_offsets, on_reader, on_reading, on_signal
from recoveryd.live.params import LiveParams
from recoveryd.live.slice import LiveDraft
from recoveryd.live.wire.signals import FORMS

NAME = "live"


def make_live(params: LiveParams) -> Capability[LiveDraft]:
    return Capability(
        name=NAME,
        view=LiveDraft,
        make_view=lambda draft: LiveDraft(draft, params),
        signals=FORMS,
        measures=make_measures(params),
        events=(OffsetsSampled, ReaderSampled, ReadingTaken),
        handlers=(
            on(SignalReceived, on_signal),
            on(OffsetsSampled, on_offsets),
            on(ReaderSampled, on_reader),
            on(ReadingTaken, on_reading),
        ),
    )
