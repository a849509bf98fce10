"""One output for all log lines, on stderr: structlog's own, and those of Faust, aiokafka, py4j, aiohttp and librdkafka
through the standard library.

Plain lines on a terminal, JSON elsewhere, or as configured. Bound values (recovery_id, command_id, attempt) come out as
fields. No code logs client properties; the filter here is a second safeguard, for keys whose names suggest a secret.
Tracebacks are shown without the values of variables, which hold client properties with their passwords.
"""

import io
import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

HIDDEN: Final = "***"
_SECRET: Final = re.compile(r"pass(word|phrase)?$|secret|token|api.?key|jaas|credential", re.IGNORECASE)
# What these log at INFO is written at DEBUG: partitions, heartbeats and tables of settings on each rebalance.
_CHATTY: Final = ("faust", "mode", "aiokafka", "py4j", "aiohttp.access", "asyncio", "kafka")

# Its requests are the logins too, with the password or the token of PLAIN and OAUTHBEARER.
_TELLS_SECRETS_AT_DEBUG: Final = ("aiokafka.conn",)

_REPEATING: Final = ("recoveryd.kafka", "aiokafka", "faust", "mode", "kafka")

# What a traceback may take: an error may quote whole records, and have as many causes as there were tries.
TRACEBACK_CHARS: Final = 20_000
_MESSAGE_CHARS, _NOTE_CHARS = 2_000, 500
_STACKS, _FRAMES, _OF_GROUP = 5, 30, 3

_as_data = ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES)


def configure(format_name: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """`format_name`: auto | console | json (auto = console on a terminal); `level`: a standard level name. Replaces
    earlier handlers of the root.
    """
    out = stream or sys.stderr
    is_console = format_name == "console" or (format_name == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_last(is_console=is_console, out=out),
            ],
        )
    )
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    _quieten(logging.getLevelName(level.upper()))


class Repeats(logging.Filter):
    """Lets a library log the same line a few times, then only counts: without a broker, librdkafka alone writes
    hundreds of lines a minute.

    Lines are the same when the logger and the beginning of the message are. The daemon's own lines always pass; so do
    lines with a traceback.
    """

    ALLOWED, WINDOW_S, BEGINNING_CHARS, KEYS_AT_MOST = 3, 30.0, 60, 256

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_REPEATING) or record.exc_info:
            return True
        key = (record.name, record.getMessage()[: self.BEGINNING_CHARS])
        now_s = self._now_s()
        began_s, count = self._windows.pop(key, (now_s, 0))
        suppressed = 0
        if now_s - began_s >= self.WINDOW_S:
            suppressed, began_s, count = max(0, count - self.ALLOWED), now_s, 0
        self._windows[key] = (began_s, count + 1)
        if len(self._windows) > self.KEYS_AT_MOST:
            del self._windows[next(iter(self._windows))]
        if suppressed:
            record.msg, record.args = f"{record.getMessage()} (and {suppressed} more like it)", ()
        return count < self.ALLOWED


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank the values of keys that name secrets, also inside mappings."""
    return cast("EventDict", _without_secrets(event))


def _what_matters_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {key: event[key] for key in ("timestamp", "level", "message") if key in event}
    return {**first, **event}


def _without_secrets(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: HIDDEN
        if isinstance(key, str) and _SECRET.search(key)
        else _without_secrets(value)
        if isinstance(value, Mapping)
        else value
        for key, value in mapping.items()
    }


def _last(*, is_console: bool, out: TextIO) -> list[Processor]:
    if is_console:
        return [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_write_traceback)]
    return [
        structlog.processors.ExceptionRenderer(_traceback_as_data),
        structlog.processors.EventRenamer("message"),
        _what_matters_first,
        structlog.processors.JSONRenderer(default=str),
    ]


def _write_traceback(out: TextIO, exc_info: ExcInfo) -> None:
    whole = io.StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    out.write(_cut(whole.getvalue(), TRACEBACK_CHARS))


def _traceback_as_data(exc_info: ExcInfo) -> list[dict[str, Any]]:
    """The last exceptions, shortened: what was raised last is the first. Of a group a few members, without theirs."""
    return [
        {**_shortened(stack), "exceptions": [_shortened(i[0]) for i in stack["exceptions"][:_OF_GROUP] if i]}
        for stack in _as_data(exc_info)[:_STACKS]
    ]


def _shortened(stack: Mapping[str, Any]) -> dict[str, Any]:
    notes = [_cut(note, _NOTE_CHARS) for note in stack["exc_notes"][:_OF_GROUP]]
    return {**stack, "exc_value": _cut(stack["exc_value"], _MESSAGE_CHARS), "exc_notes": notes, "exceptions": []}


def _cut(text: str, chars: int) -> str:
    """Both ends of it: the first says where it began, the last what happened."""
    left_out = len(text) - chars
    return text if left_out <= 0 else f"{text[: chars // 2]} ... ({left_out} more) ... {text[-(chars // 2) :]}"


def _quieten(level: Any) -> None:
    for name in _CHATTY:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    for name in _TELLS_SECRETS_AT_DEBUG:
        logging.getLogger(name).setLevel(logging.INFO if level < logging.INFO else logging.NOTSET)
