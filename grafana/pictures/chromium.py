"""Turns an HTML file into a PNG by a headless Chromium without network and without a lasting profile."""

import os
import subprocess
import tempfile
from pathlib import Path

_TIMEOUT_S = 60.0


class PictureFailed(Exception):  # noqa: N818  (told to people as it is)
    """Chromium made no picture; `str(error)` holds what it said."""


def make_png(chromium: Path, html: Path, png: Path, width: int, height: int) -> None:
    """Raises `PictureFailed`."""
    with tempfile.TemporaryDirectory(prefix="recoveryd-chromium-") as profile:
        command = [
            str(chromium), "--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--force-device-scale-factor=1",
            f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={png}",
            html.resolve().as_uri(),
        ]  # fmt: skip
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # with its sandbox Chromium refuses to start as root
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                env={**os.environ, "HOME": profile},
            )
        except subprocess.TimeoutExpired:
            raise PictureFailed(f"Chromium took over {_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0 or not png.exists():
        raise PictureFailed(f"Chromium left with {done.returncode}: {done.stderr[-500:]}")
