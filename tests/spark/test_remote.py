"""Checks and changes before lanes run on other machines."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd_jobs.clients import INLINE, make_admin, opened
from recoveryd_jobs.contract import ControlSpec, Directive, JobSpec, LaneSpec, PartitionRange, SourceSpec, TargetSpec
from recoveryd_jobs.driver.remote import check_secured, explain_failure, make_portable
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.shared.executors import why_unfit

PLAIN = {"bootstrap.servers": "a:1", "security.protocol": "plaintext"}
LOGIN = PLAIN | {"sasl.password": "geheim"}
PROTECTED = {
    "spark.master": "spark://m:7077",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


def make_spec(client: dict[str, str]) -> JobSpec:
    return JobSpec(
        kind="replay", scope="s", recovery="r", attempt=1, lanes=(LaneSpec(0, (PartitionRange(0, 0, 1),)),),
        source=SourceSpec("main", "in", "id", client), target=TargetSpec("main", "out", "id", 1, PLAIN),
        control=ControlSpec(PLAIN, "directives", "progress"), receipts_topic="receipts",
        directive=Directive("r", 1, 1, "run", 1_000),
    )  # fmt: skip


def test_without_secrets_nothing_is_asked_of_spark() -> None:
    check_secured({"spark.master": "yarn"}, make_spec(PLAIN))


@pytest.mark.parametrize("rpc", ["spark.network.crypto.enabled", "spark.ssl.rpc.enabled"])
def test_secrets_may_travel_when_spark_protects_links_and_disks(rpc: str) -> None:
    conf = PROTECTED | {"spark.network.crypto.enabled": "false"} | {rpc: "true"}
    check_secured(conf, make_spec(LOGIN))


@pytest.mark.parametrize("name", [n for n in PROTECTED if n != "spark.master"])
def test_each_missing_protection_is_named_and_no_secret(name: str) -> None:
    with pytest.raises(JobError) as caught:
        check_secured({n: v for n, v in PROTECTED.items() if n != name}, make_spec(LOGIN))
    assert (caught.value.code, caught.value.message) == (
        "spark_unsecured",
        f"Client properties hold secrets (sasl.password), the master is spark://m:7077, and {name} is not true.",
    )


def test_all_missing_protections_are_named_at_once() -> None:
    with pytest.raises(JobError) as caught:
        check_secured({"spark.master": "yarn"}, make_spec(PLAIN | {"ssl.key.location": "k"}))
    assert caught.value.message.endswith(
        "(ssl.key.location), the master is yarn, and spark.authenticate, spark.network.crypto.enabled, "
        "spark.io.encryption.enabled are not true."
    )


def test_files_of_client_properties_travel_as_text_and_are_read_without_a_disk(tmp_path: Path) -> None:
    ca, both = tmp_path / "ca.pem", tmp_path / "both.pem"
    ca.write_bytes(b"authority\n")
    both.write_bytes(b"chain and key")
    client = PLAIN | {"ssl.ca.location": str(ca), "ssl.certificate.location": str(both), "ssl.key.location": str(both)}
    spec = make_spec(client)
    portable = make_portable(spec)
    assert replace(portable, source=spec.source) == spec
    assert not any(str(tmp_path) in value for value in portable.source.client.values())
    ca.unlink()
    both.unlink()
    there = opened(portable.source.client)
    assert {n: Path(v).read_bytes() for n, v in there.items() if n.endswith(".location")} == {
        "ssl.ca.location": b"authority\n",
        "ssl.certificate.location": b"chain and key",
        "ssl.key.location": b"chain and key",
    }
    assert opened(portable.source.client) == there, "no new file for each client"
    assert opened(client) == client, "what is a path stays one"


def test_a_file_that_cannot_travel_is_refused_by_name(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.pem", "No such file"), (tmp_path / "large.pem", "larger than 1 MiB")):
        (tmp_path / "large.pem").write_bytes(b"x" * (1024 * 1024 + 1))
        with pytest.raises(JobError) as caught:
            make_portable(make_spec(PLAIN | {"ssl.ca.location": str(path)}))
        assert caught.value.message.startswith(f"ssl.ca.location {path} ")
        assert why in caught.value.message


def test_the_library_takes_a_bundle_of_certificates_from_memory(pem_bundle: str) -> None:
    inlined = INLINE + base64.b64encode(pem_bundle.encode()).decode()
    make_admin(PLAIN | {"security.protocol": "ssl", "ssl.ca.location": inlined}, "test")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('java.io.IOException: Cannot run program "/x/python": error=2', "cannot start the Python /x/python; set spark.pyspark.python"),
        ("ModuleNotFoundError: No module named 'confluent_kafka'\n at", "no module confluent_kafka; install confluent-kafka"),
        ((
            "pyspark.errors: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, so"
        ), "is not the driver's: Python in worker has different version: 3.9"),
    ],
)  # fmt: skip
def test_executors_that_are_not_fit_are_told_apart(text: str, message: str) -> None:
    found = explain_failure(f"Job aborted: Lost task 0.3: {text}")
    assert found is not None
    assert found.code == "executors_unfit"
    assert message in found.message
    assert why_unfit(text) == found.message, "which people read from doctor, without the mark of a job's error"
    assert explain_failure("Job aborted: a lane raised") is None


@pytest.fixture
def pem_bundle() -> str:
    certifi = pytest.importorskip("certifi")
    return Path(certifi.where()).read_text(encoding="utf-8")
