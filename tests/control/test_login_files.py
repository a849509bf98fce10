"""What a kubeconfig holds itself, as a private key, is on disk only for as long as the process that uses it."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from recoveryd.adapters.control.login_files import NAME, LoginFiles
from tests.patience import patient_s

# As the daemon ends: at once, without what Python does at its end.
DAEMON = """
import os, sys
from pathlib import Path
from recoveryd.adapters.control.kube_api import KubeApi
from recoveryd.adapters.control.login_files import LoginFiles
from recoveryd.adapters.http.asking import HttpRefusal
api = KubeApi(Path(sys.argv[1]), None, {}, timeout_s=5, files=LoginFiles(Path(sys.argv[2])))
try:
    api.get("/version")
except HttpRefusal as problem:
    print(problem)
os._exit(0)
"""


def kubeconfig(folder: Path, key: str) -> Path:
    data = {name: base64.b64encode(name.encode()).decode() for name in ("client-certificate-data",)}
    data["client-key-data"] = base64.b64encode(key.encode()).decode()
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": data}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def keys_in(folder: Path) -> set[str]:
    return {text for path in folder.rglob("*") if path.is_file() and (text := path.read_text()).startswith("PRIVATE")}


def test_a_key_of_a_kubeconfig_goes_once_the_next_daemon_needs_one(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "work" / NAME, tmp_path / "tmp"
    elsewhere.mkdir()
    for key in ("PRIVATE1", "PRIVATE2"):
        config = kubeconfig(tmp_path, key)
        subprocess.run(
            [sys.executable, "-c", DAEMON, str(config), str(root)],
            env={**os.environ, "TMPDIR": str(elsewhere)},
            check=True,
            timeout=patient_s(5),
        )
        assert keys_in(root) == {key}
        assert root.stat().st_mode & 0o777 == 0o700
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_a_process_that_lives_stays(tmp_path: Path) -> None:
    one = LoginFiles(tmp_path)
    folder = one.folder()
    (folder / "key").write_text("PRIVATE1")
    other = LoginFiles(tmp_path).folder()
    assert folder == one.folder() != other
    assert keys_in(tmp_path) == {"PRIVATE1"}


def test_what_is_no_folder_of_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "key").write_text("PRIVATE1")
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / NAME / "file").write_text("")
    LoginFiles(tmp_path / NAME).folder()
    assert keys_in(tmp_path / "elsewhere") == {"PRIVATE1"}
    assert (tmp_path / NAME / "file").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("")
    with pytest.raises(OSError, match="exists"):
        LoginFiles(tmp_path / NAME).folder()
