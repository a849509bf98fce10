"""The one loop that changes the state: inbox, rounds, leadership, effects.

No rule about recoveries lives here: those are in `recoveryd.recovery`. Nor does any client of another system. Start at
`loop`, then `rounds`.
"""

from recoveryd.runtime.inbox import Inbox
from recoveryd.runtime.intake import ControlIntake
from recoveryd.runtime.loop import Runtime
from recoveryd.runtime.ticker import Ticker
from recoveryd.runtime.vitals import Vitals

__all__ = ["ControlIntake", "Inbox", "Runtime", "Ticker", "Vitals"]
