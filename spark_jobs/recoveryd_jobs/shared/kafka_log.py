"""The logger that librdkafka (2.16) writes to, without the queries of token endpoints.

The library asks for tokens by itself, and when it gets none it logs the whole address. A query there may hold a key,
and what jobs log can be read by HTTP without a login. The filter goes over all lines of this logger, also ours.
"""

import functools
import logging
import re
from typing import Final

NAME: Final = "recoveryd.kafka"
# Up to a blank, which no address holds, but for the quote and the colon that the library writes behind one.
_QUERY: Final = re.compile(r'(https?://[^\s?#]*)[?#]\S*?(?="?:?(?:\s|$))', re.IGNORECASE)


def without_queries(text: str) -> str:
    return _QUERY.sub(r"\1?***", text)


@functools.cache
def kafka_log() -> logging.Logger:
    log = logging.getLogger(NAME)
    log.addFilter(_without_queries)
    return log


def _without_queries(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    shown = without_queries(text)
    if shown != text:
        record.msg, record.args = shown, ()
    return True
