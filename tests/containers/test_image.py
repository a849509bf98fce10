"""What is in the product's image and how it starts, asked from the engine and from short-lived containers of it."""

import docker
import pytest

from tests.containers import registry
from tests.containers.images import Images

pytestmark = [pytest.mark.containers]  # the first test waits for the images

# Most of it is Spark and a JRE; more than this means that build tools are in the image.
_SIZE_LIMIT_BYTES = 1_100_000_000


def run_in(image: str, script: str) -> str:
    """Output of a shell script in a fresh container of `image`, as the image's own user."""
    client = docker.from_env()
    try:
        out = client.containers.run(image, [script], entrypoint=["sh", "-c"], remove=True, stderr=True)
        return str(out.decode()).strip()
    finally:
        client.close()


def test_it_starts_as_an_unprivileged_user_under_an_init_with_a_health_check(suite_images: Images) -> None:
    client = docker.from_env()
    try:
        config = client.images.get(suite_images.product).attrs["Config"]
    finally:
        client.close()
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["tini", "--", "recoveryd"]
    assert config["Cmd"] == ["run"]
    assert config["Healthcheck"]["Test"] == ["CMD", "python3", "-I", "-S", "/opt/recoveryd/healthcheck.py"]
    assert list(config["ExposedPorts"]) == ["8712/tcp"]
    assert config["Labels"]["org.opencontainers.image.title"] == "recoveryd"
    assert [name for name in config["Env"] if name.startswith("PIP_")] == []


def test_it_runs_as_a_user_who_cannot_change_the_program(suite_images: Images) -> None:
    assert run_in(suite_images.product, "id -u; id -g") == "10001\n10001"
    writable = "find /opt/recoveryd /usr /etc -writable ! -type l 2> /dev/null; true"
    assert run_in(suite_images.product, writable) == ""


def test_it_has_no_build_tools_and_no_caches(suite_images: Images) -> None:
    tools = "for tool in gcc cc g++ make ld git curl wget; do command -v $tool; done; true"
    assert run_in(suite_images.product, tools) == ""
    assert (
        run_in(suite_images.product, "ls -d /wheels /src /root/.cache /var/lib/apt/lists/*Packages* 2>/dev/null; true")
        == ""
    )
    assert run_in(suite_images.product, "ls /opt/recoveryd/bin | grep -x -e pip -e pip3 -e pytest -e mypy; true") == ""
    assert run_in(suite_images.product, "cat /etc/pip.conf /etc/apt/apt.conf.d/*proxy* 2>/dev/null; true") == ""


def test_it_stays_small(suite_images: Images) -> None:
    assert registry.size_bytes(suite_images.product) < _SIZE_LIMIT_BYTES


def test_its_java_and_its_python_are_those_the_product_needs(suite_images: Images) -> None:
    assert 'version "17.' in run_in(suite_images.product, "java -version 2>&1")
    found = run_in(suite_images.product, "command -v python3; python3 -c 'import recoveryd, recoveryd_jobs, pyspark'")
    assert found == "/opt/recoveryd/bin/python3"


def test_its_command_line_explains_an_error_code(suite_images: Images) -> None:
    assert "RCV-1012" in run_in(suite_images.product, "recoveryctl explain RCV-1012")


def test_a_daemon_without_a_broker_address_says_so_and_ends_with_the_code_of_a_wrong_config(
    suite_images: Images,
) -> None:
    client = docker.from_env()
    container = client.containers.create(suite_images.product)
    try:
        container.start()
        assert container.wait(timeout=120)["StatusCode"] == 78
        assert "RECOVERYD_BOOTSTRAP_SERVERS" in container.logs().decode()
    finally:
        container.remove(force=True)
        client.close()
