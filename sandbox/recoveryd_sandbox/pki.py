"""A certificate authority for one sandbox cluster, and the one certificate that its nodes share, made with this
machine's `openssl`.

Made once per folder and kept; keys are readable by their owner only. For trying things on one machine, and for nothing
else.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.errors import SandboxError

NODE_NAME = "sandbox-node"  # the principal of every node, by its certificate

_TIMEOUT_S = 60.0
_DAYS = "3650"
_CONFIG = """[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[node]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1, DNS:localhost
"""


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority's certificate, and the nodes' key with its certificate."""

    authority: Path
    node: Path


def make_certificates(folder: Path) -> Certificates:
    """The certificates of `folder`, created when they do not exist yet. Raises `SandboxError` when openssl is missing
    or fails.
    """
    found = Certificates(folder / "ca.pem", folder / "node.pem")
    if found.node.exists() and found.authority.exists():
        return found
    openssl = shutil.which("openssl")
    if openssl is None:
        raise SandboxError(
            "A secured sandbox needs `openssl` for its certificates.", "Install it, or leave --secure out."
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in (("ca.cnf", "recoveryd sandbox"), ("node.cnf", NODE_NAME)):
        (folder / name).write_text(_CONFIG.format(name=text), encoding="utf-8")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _run(folder, openssl, "req", "-x509", *key, "-config", "ca.cnf", "-extensions", "authority", "-days", _DAYS,
        "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    _run(folder, openssl, "req", "-new", *key, "-config", "node.cnf", "-keyout", "node.key", "-out", "node.csr")
    _run(folder, openssl, "x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", _DAYS,
         "-extfile", "node.cnf", "-extensions", "node", "-out", "node.crt")  # fmt: skip
    draft = folder / "node.draft"
    draft.touch(mode=0o600)
    draft.write_bytes((folder / "node.key").read_bytes() + (folder / "node.crt").read_bytes())
    draft.replace(found.node)  # last: where this file exists, everything is complete
    return found


def _run(folder: Path, *command: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"openssl did not do its work: {error}.", "Does `openssl version` answer?") from error
    if done.returncode != 0:
        raise SandboxError(f"openssl could not make a certificate: {done.stderr.strip()[-300:]}.")
