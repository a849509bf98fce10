"""The one loop that moves the state: inbox, rounds, leadership. No rule about recovery lives here (see `daemon.core`), and no client of anything."""

from daemon.runtime.inbox import Inbox
from daemon.runtime.intake import Intake
from daemon.runtime.loop import Runtime, Vitals
from daemon.runtime.ticker import Ticker

__all__ = ["Inbox", "Intake", "Runtime", "Ticker", "Vitals"]
