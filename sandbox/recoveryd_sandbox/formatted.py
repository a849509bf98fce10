"""What Kafka's `format` makes of a new folder, kept in the cache for nodes with the same settings.

`format` is a JVM of its own for a few small files, which differ in their ids only. The first node with some settings is
formatted by Kafka, so that what Kafka refuses is refused; later ones get a copy with ids of their own. Several
processes may do this at once: a folder is made beside its place and renamed. Nothing depends on the cache; without it
each node is formatted.
"""

import contextlib
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.properties import new_cluster_id

META: Final = "meta.properties"
_IDS: Final = ("cluster.id", "directory.id")  # both are 16 random bytes in the same form


@dataclass(frozen=True, slots=True)
class Formatted:
    """A formatted folder in the cache, which may not be there yet."""

    place: Path

    @classmethod
    def by(cls, version: str, settings: str, cache_dir: Path | None = None) -> "Formatted":
        """For this version of Kafka and these settings, in which ids, ports and paths must not differ from node to
        node.
        """
        root = default_cache_dir() if cache_dir is None else cache_dir
        return cls(root / "formatted" / hashlib.sha256(f"{version}\n{settings}".encode()).hexdigest()[:24])

    def copy_to(self, data_dir: Path) -> bool:
        """Make `data_dir`, which does not exist; False when it has to be formatted."""
        part = data_dir.with_name(f"{data_dir.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # left by an interrupted copy
        try:
            shutil.copytree(self.place, part)
            meta = part / META
            meta.write_text(_with_new_ids(meta.read_text(encoding="utf-8")), encoding="utf-8")
            part.rename(data_dir)
        except (OSError, shutil.Error):
            shutil.rmtree(part, ignore_errors=True)
            return False
        return True

    def keep(self, data_dir: Path) -> None:
        """Take a copy of what Kafka has just formatted, unless another process was first or there is no place
        for it.
        """
        with contextlib.suppress(OSError, shutil.Error):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.place.parent, prefix="part-", ignore_cleanup_errors=True) as part:
                shutil.copytree(data_dir, Path(part) / "data")
                (Path(part) / "data").rename(self.place)


def _with_new_ids(meta: str) -> str:
    named = ((line.partition("=")[0], line) for line in meta.splitlines())
    return "".join(f"{name}={new_cluster_id()}\n" if name in _IDS else f"{line}\n" for name, line in named)
