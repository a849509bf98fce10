"""From a verb and its data to the one control record that is sent: envelope, check, and the printed form.

What goes out is what any Kafka producer could send. The record is read back by the daemon's own codec before it is
sent, so that what would be refused is refused here, with the same code and hint, and leaves no trace on the topic.
"""

import getpass
import random
import re
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.failure import invalid, usage
from recoveryd.cli.options import Format
from recoveryd.cli.render.output import say, show
from recoveryd.cli.send.backend import OutgoingRecord
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.topics import TopicNames

SUFFIX_CHARACTERS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels and look-alikes: ids are read aloud


def make_id(topic: str, ending: str = "") -> str:
    """A recovery id from the source topic, a new one unless its `ending` is given: `flights-k7x2m`."""
    ending = ending or "".join(random.choices(SUFFIX_CHARACTERS, k=5))  # noqa: S311  (a name, no secret)
    stem = re.sub(r"[^a-z0-9._-]+", "-", topic.lower()).strip("._-")
    stem = stem[: 49 - len(ending)].rstrip("._-")  # what it begins has it in its id
    return f"{stem or 'recovery'}-{ending}"


def make_record(
    verb: str,
    recovery: str,
    data: Mapping[str, object],
    names: TopicNames,
    *,
    command_id: str | None = None,
    expires_s: float | None = None,
) -> OutgoingRecord:
    """The checked record of one command. Raises `Failure` with the code that the daemon would answer."""
    import uuid  # noqa: PLC0415  (like the codec, more than help should pay for)

    from recoveryd.capabilities import make_codec  # noqa: PLC0415
    from recoveryd.kernel.commands import RefusedCommand  # noqa: PLC0415

    if not data.get("reason"):
        raise usage("--reason is missing.", 'Say why with `--reason "..."`; it is kept with the recovery.')
    now_ms = time.time_ns() // 1_000_000
    encoded = make_codec().encode(
        verb,
        recovery,
        data,
        id=command_id or str(uuid.uuid4()),
        source=_source(),
        time_ms=now_ms,
        expiry_ms=None if expires_s is None else now_ms + int(expires_s * 1000),
    )
    if isinstance(encoded, RefusedCommand):
        raise invalid(Code(encoded.code), encoded.message, encoded.hint)
    return OutgoingRecord(names.control, recovery, encoded.headers, encoded.value, str(encoded.event["id"]))


def shown_record(record: OutgoingRecord, brokers: str | None) -> Document:
    """Key, headers, value and a kcat line; without `brokers` it takes those of the variable."""
    value = record.value.decode()
    headers = {name: text.decode() for name, text in record.headers}
    line = kcat_line(record, brokers)
    return {"topic": record.topic, "key": record.key, "headers": headers, "value": value, "kcat": line}


def print_record(record: OutgoingRecord, output: Format, brokers: str | None) -> None:
    """The same to stdout."""
    shown = shown_record(record, brokers)

    def lines() -> list["RenderableType"]:
        for name, text in shown.items():
            told = ", ".join(f"{k}: {v}" for k, v in text.items()) if name == "headers" else text
            say(f"{name}: {told}")  # not through Rich, which would wrap what is meant to be copied
        return []

    show(shown, output, lines, [record.key])


def kcat_line(record: OutgoingRecord, brokers: str | None = None) -> str:
    """A shell line that produces exactly this record; kcat takes each line of its input as one value."""
    headers = " ".join(f"-H {shlex.quote(f'{name}={text.decode()}')}" for name, text in record.headers)
    value = shlex.quote(record.value.decode())
    key, topic = shlex.quote(record.key), shlex.quote(record.topic)
    place = shlex.quote(brokers) if brokers else '"$RECOVERYD_BOOTSTRAP_SERVERS"'
    return f"printf '%s\\n' {value} | kcat -P -b {place} -t {topic} -k {key} {headers}"


def is_begun_by(document: Document | None, command_id: str | None) -> bool:
    """Whether what has this status was begun by the command of this id, sent by this user."""
    command = (document or {}).get("command") or {}
    return command_id is not None and (command.get("id"), command.get("source")) == (command_id, _source())


def _source() -> str:
    return f"//recoveryctl/{_user()}"


def _user() -> str:
    try:
        return re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"
