"""Contexts: what a command line has to know of a recoveryd, kept under a name so that nobody types it each time.

A context holds client properties of the cluster `main`, the prefix of the own topics and the address of the daemon; it
is no config of a daemon, and needs none. Each is a file that only its owner can read, since it may hold a password.
The folder is `$XDG_CONFIG_HOME/recoveryd/contexts`; which one is in use stands beside it in `context`.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from recoveryd.settings.sources import Origin, Tree

from recoveryd.cli.failure import Failure, usage
from recoveryd.kernel.catalogue import Code

VARIABLE: Final = "RECOVERYD_CONTEXT"
CLUSTER: Final = ("clusters", "main")  # where the properties stand in the config of a daemon
BOOTSTRAP: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEYS: Final = {"properties", "topics_prefix", "daemon"}


@dataclass(frozen=True, slots=True)
class Context:
    """`properties` as the config of a daemon has them under `clusters.main`; `file` is where it stands."""

    name: str
    file: Path
    properties: Mapping[str, Any] = field(repr=False)
    topics_prefix: str | None = None
    daemon: str | None = None

    @property
    def has_brokers(self) -> bool:
        return BOOTSTRAP in self.properties

    def as_tree(self, typed: "Mapping[str, Origin] | None" = None) -> "Tree":
        """In the place of a config file; paths are relative to the file of the context. `typed`: where each property
        was given, of a context that is not written yet.
        """
        from recoveryd.settings.sources import Origin, Tree  # noqa: PLC0415

        tree, written = Tree({}, {}), Origin(str(self.file), 1)
        for name, value in self.properties.items():
            tree.put((*CLUSTER, name), value, written if typed is None else typed[name])
        if self.topics_prefix is not None:
            tree.put(("topics", "prefix"), self.topics_prefix, written if typed is None else Origin("--topics-prefix"))
        return tree


class Contexts:
    """Those of this user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = environment.get("XDG_CONFIG_HOME", "").strip()
        base = (Path(home) if home else Path("~/.config").expanduser()) / "recoveryd"
        self._folder, self._pointer = base / "contexts", base / "context"

    def names(self) -> list[str]:
        return sorted(file.stem for file in self._folder.glob("*.yaml") if _NAME.fullmatch(file.stem))

    def current(self) -> str | None:
        """The one that `use` chose, None when none is."""
        try:
            return self._pointer.read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    def read(self, name: str) -> Context:
        """Raises `Failure`: there is none of this name, or its file is none."""
        from recoveryd.cli.send.documents import read_file  # noqa: PLC0415

        file = self._file(name)
        if name not in self.names():
            known = ", ".join(self.names())
            hint = f"Known are {known}." if known else "Make one with `recoveryctl context add`; there is none yet."
            raise Failure(Code.NO_SUCH_CONTEXT, f"There is no context `{name}`.", hint)
        document = read_file(file, f"Make it again with `recoveryctl context add {name} --replace`.")
        properties = document.get("properties")
        if not isinstance(properties, dict) or set(document) - _KEYS:
            raise usage(f"{file} is no context.", f"Make it again with `recoveryctl context add {name} --replace`.")
        return Context(name, file, properties, document.get("topics_prefix"), document.get("daemon"))

    def make(self, name: str, properties: Mapping[str, Any], prefix: str | None, daemon: str | None) -> Context:
        """Not written yet."""
        return Context(name, self._file(name), properties, prefix, daemon)

    def write(self, context: Context) -> None:
        import yaml  # noqa: PLC0415

        held: dict[str, Any] = {"properties": dict(context.properties)}
        held |= {} if context.topics_prefix is None else {"topics_prefix": context.topics_prefix}
        held |= {} if context.daemon is None else {"daemon": context.daemon}
        _write(context.file, yaml.safe_dump(held, sort_keys=False, allow_unicode=True))

    def use(self, name: str) -> None:
        self.read(name)
        _write(self._pointer, f"{name}\n")

    def remove(self, name: str) -> None:
        self.read(name).file.unlink()
        if self.current() == name:
            self._pointer.unlink()

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise usage(f"`{name}` is no name of a context.", "Letters, digits, `.`, `_` and `-`, at most 63.")
        return self._folder / f"{name}.yaml"


def _write(file: Path, text: str) -> None:
    """Whole or not at all, and for nobody else to read."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, made = tempfile.mkstemp(dir=file.parent, prefix=".new-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
        Path(made).replace(file)
    except OSError as error:
        raise usage(
            f"{file} cannot be written: {error.strerror}.", "Set XDG_CONFIG_HOME to a folder of yours."
        ) from None
