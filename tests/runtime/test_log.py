"""All log lines go to one output, with their bound values and without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest

from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.log import Repeats, configure
from recoveryd.settings.secrets import Resolved


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_are_json_with_what_is_bound() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    log = structlog.stdlib.get_logger("daemon.test").bind(recovery_id="r1", command_id="c1", attempt=2)
    log.info("copies", records=5)
    log.debug("too much")
    [line] = lines(stream)
    assert line.pop("timestamp")
    assert line == {
        "message": "copies",
        "level": "info",
        "logger": "daemon.test",
        "recovery_id": "r1",
        "command_id": "c1",
        "attempt": 2,
        "records": 5,
    }


def test_lines_of_libraries_take_the_same_way() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    logging.getLogger("aiokafka.conn").warning("lost %s", "127.0.0.1", extra={"node": 1})
    logging.getLogger("faust.transport").info("partitions assigned")
    [line] = lines(stream)
    assert (line["message"], line["level"], line["logger"], line["node"]) == (
        "lost 127.0.0.1",
        "warning",
        "aiokafka.conn",
        1,
    )


def test_a_traceback_is_data_in_json() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    try:
        int("x")
    except ValueError:
        structlog.stdlib.get_logger("t").exception("broke")
    [line] = lines(stream)
    assert "ValueError" in json.dumps(line["exception"])


@pytest.mark.parametrize(
    "fields",
    [
        {"sasl.password": "hunter2"},
        {"client": {"ssl.key.password": "hunter2"}},
        {"sasl.jaas.config": "hunter2"},
        {"api_key": "hunter2"},
        {"ssl.truststore.credentials": "hunter2"},
    ],
)
def test_secrets_do_not_come_out(fields: dict[str, object]) -> None:
    stream = io.StringIO()
    configure("json", "debug", stream)
    structlog.stdlib.get_logger("t").warning("config", **fields)
    assert "hunter2" not in stream.getvalue()
    assert "***" in stream.getvalue()


class Wire:
    """Takes what is sent to a broker."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, message: bytes) -> None:
        self.sent += message

    async def drain(self) -> None: ...


@pytest.mark.parametrize("level", ["debug", "info", "error"])
async def test_logins_to_brokers_do_not_come_out_at_any_level(level: str) -> None:
    """Aiokafka logs each request of a connection, and a login is one. What else it says is for who wants to see it."""
    stream = io.StringIO()
    configure("json", level, stream)
    connection = AIOKafkaConnection("127.0.0.1", 9092)
    connection._writer = wire = Wire()
    connection._versions = {SaslAuthenticateRequest.API_KEY: (0, 1)}
    await connection.send(SaslAuthenticateRequest(b"me\0me\0hunter2"), expect_response=False)
    assert b"hunter2" in wire.sent
    logging.getLogger("aiokafka.conn").info("Authenticated as me via PLAIN")
    logging.getLogger("aiokafka.client").debug("Initiating connection")
    told = stream.getvalue()
    assert "hunter2" not in told
    assert ("Authenticated as me" in told, "Initiating" in told) == ((level == "debug"),) * 2


PASSWORD = "hunter2"  # a traceback shows lines of code, so these shall not hold it


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log_in(password: str, bootstrap: str) -> None:
    client = {"sasl.password": password, "bootstrap.servers": bootstrap}
    raise ValueError(f"no broker at {client['bootstrap.servers']}")


@pytest.mark.parametrize(
    ("name", "stream"), [("json", io.StringIO()), ("console", io.StringIO()), ("console", Terminal())]
)
def test_a_traceback_does_not_show_what_variables_hold(name: str, stream: io.StringIO) -> None:
    configure(name, "info", stream)
    try:
        log_in(PASSWORD, "kafka:9092")
    except ValueError:
        structlog.stdlib.get_logger("t").exception("broke")
        logging.getLogger("faust").exception("a library broke")
    told = stream.getvalue()
    assert told.count("no broker at kafka:9092") >= 2
    assert "log_in" in told
    assert "hunter2" not in told


def fail_with_causes(left: int) -> None:
    try:
        int("x" * 3_000)
    except ValueError as error:
        if left:
            fail_with_causes(left - 1)
        raise ExceptionGroup("y" * 100_000, [error] * 50) from error


@pytest.mark.parametrize("name", ["json", "console"])
def test_a_traceback_is_of_bounded_size(name: str) -> None:
    stream = io.StringIO()
    configure(name, "info", stream)
    try:
        fail_with_causes(40)
    except ExceptionGroup:
        structlog.stdlib.get_logger("t").exception("broke")
    assert "broke" in stream.getvalue()
    assert len(stream.getvalue()) < 100_000


def test_what_holds_logins_does_not_show_them() -> None:
    properties = LivingProperties({"sasl.password": "hunter2", "bootstrap.servers": "kafka:9092"})
    assert "hunter2" not in f"{properties} {properties!r} {Resolved('hunter2', '***')}"


def test_a_console_line_is_for_people() -> None:
    stream = io.StringIO()
    configure("console", "info", stream)
    structlog.stdlib.get_logger("t").info("copies", recovery_id="r1")
    assert "copies" in stream.getvalue()
    assert "recovery_id=r1" in stream.getvalue()


def test_auto_is_json_where_nobody_looks() -> None:
    stream = io.StringIO()
    configure("auto", "info", stream)
    structlog.stdlib.get_logger("t").info("copies")
    assert lines(stream)[0]["message"] == "copies"


def test_a_library_that_repeats_itself_is_counted_and_our_own_lines_always_pass() -> None:
    now_s = [0.0]
    repeats = Repeats(lambda: now_s[0])

    def said(name: str, message: str) -> str | None:
        record = logging.LogRecord(name, logging.ERROR, "", 0, "%s", (message,), None)
        return record.getMessage() if repeats.filter(record) else None

    refused = "FAIL [journal#producer-2] [thrd:127.0.0.1:9092/bootstrap]: Connection refused after "
    passed = [said("recoveryd.kafka", f"{refused}{i} ms") for i in range(10)]
    assert [line is not None for line in passed] == [True] * 3 + [False] * 7
    assert said("recoveryd.kafka", "something else") == "something else"
    assert [said("recoveryd.runtime.loop", "will try again") for _ in range(5)] == ["will try again"] * 5
    now_s[0] = 30.0
    assert said("recoveryd.kafka", f"{refused}10 ms") == f"{refused}10 ms (and 7 more like it)"


def test_what_repeats_is_remembered_in_bounded_room() -> None:
    repeats = Repeats(lambda: 0.0)
    for i in range(Repeats.KEYS_AT_MOST + 50):
        assert repeats.filter(logging.LogRecord("aiokafka", logging.ERROR, "", 0, f"message {i}", (), None))
    assert len(repeats._windows) == Repeats.KEYS_AT_MOST
