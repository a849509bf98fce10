"""The config that the guide to three secured clusters shows for clusters of one's own can be used as it stands."""

import re
from pathlib import Path

from recoveryd.settings import load

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "three-secured-clusters.md"


def test_each_cluster_has_its_own_login_and_authority(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for name in ("main", "east", "west"):
        (tmp_path / f"{name}.password").write_text(f"secret-of-{name}")
        (tmp_path / f"{name}-ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    file = tmp_path / "recoveryd.yaml"
    file.write_text(example.replace("/etc/recoveryd/", f"{tmp_path}/"), encoding="utf-8")

    found = load(file).librdkafka_all()

    assert {name: properties["sasl.password"] for name, properties in found.items()} == {
        name: f"secret-of-{name}" for name in ("main", "east", "west")
    }
    assert {properties["ssl.ca.location"] for properties in found.values()} == {
        str(tmp_path / f"{name}-ca.pem") for name in ("main", "east", "west")
    }
