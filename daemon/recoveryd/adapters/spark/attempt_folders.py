"""Folders of attempts: spec file, log and exit code of each Spark application. For people and for launching, never
state.

Layout: `<work_dir>/<recovery>/<attempt>/{spec.json,driver.log,pid,exit_code,spark/}`; spare drivers wait in
`<work_dir>/_spares/<id>/`, which an attempt that uses one links to. Others have folders beside these (`OF_OTHERS`). A
spec holds client properties and is readable by its owner alone. Old folders are pruned, logs are cut.
"""

import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from recoveryd.adapters.spark.processes import arguments
from recoveryd.adapters.unseen import is_unseen
from recoveryd_jobs.contract import JobSpec, encode

KEPT_ATTEMPTS = 200
LOG_BYTES_MAX = 20 * 1024 * 1024
_LOG_BYTES_KEPT = 1024 * 1024
_TAIL_BYTES = 4096
_SPARES = "_spares"

_log = logging.getLogger("recoveryd.jobs")
# Applications of units and the Faust worker keep theirs in the work folder too. Nothing in them is an attempt.
OF_OTHERS = frozenset({"applications", "faust"})


class AttemptFolder:
    """One attempt's, or spare's, folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def spec_file(self) -> Path:
        return self.path / "spec.json"

    @property
    def log_file(self) -> Path:
        return self.path / "driver.log"

    def write_spec(self, spec: JobSpec) -> None:
        """Whole or not at all: a spare driver may be looking for it right now."""
        draft = self.path / f".spec.{uuid.uuid4().hex}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(encode(spec))
        draft.replace(self.spec_file)

    def write_note(self, name: str, value: int) -> None:
        (self.path / name).write_text(f"{value}\n", encoding="ascii")

    def read_note(self, name: str) -> int | None:
        try:
            return int((self.path / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def process(self) -> int | None:
        """The process of its application, whichever daemon started it; None when it runs no more. It has to name
        exactly this folder as its own: the noted number alone may long belong to somebody else.
        """
        pid = self.read_note("pid")
        if pid is None or self.read_note("exit_code") is not None:
            return None
        own = {"--spec": self.spec_file.resolve(), "--spare": self.path.resolve()}
        given = pairwise(arguments(pid))
        return pid if any(o in own and Path(value).resolve() == own[o] for o, value in given) else None

    def hidden_process(self) -> int | None:
        """The noted process when it is there and cannot be seen: it may be the application, so nothing of the folder is
        removed, or another one, so it is not ended either. One of another user is not it, unless the folder is.
        """
        pid = self.read_note("pid")
        if pid is None or self.read_note("exit_code") is not None:
            return None
        try:
            is_mine = (self.path / "pid").stat().st_uid == os.geteuid()
        except OSError:
            is_mine = False
        return pid if is_unseen(pid, of_others=not is_mine) else None

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of the log, "" without one."""
        try:
            with self.log_file.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(line for line in text.splitlines()[-lines:] if line.strip())

    def cut_log(self) -> None:
        """Keep the newest part of a log that grew too large. The application appends, so it goes on behind what is
        left.
        """
        with contextlib.suppress(OSError):
            size = self.log_file.stat().st_size
            if size <= LOG_BYTES_MAX:
                return
            with self.log_file.open("rb") as file:
                file.seek(size - _LOG_BYTES_KEPT)
                (self.path / "driver.log.1").write_bytes(file.read(_LOG_BYTES_KEPT))
            os.truncate(self.log_file, 0)

    def drop_scratch(self) -> None:
        """Remove what Spark left behind; a killed one cleans up nothing."""
        shutil.rmtree(self.path / "spark", ignore_errors=True)


def folder_of(work_dir: Path, recovery: str) -> Path:
    """The folder of a recovery's attempts. No id begins with an underscore, so no other one has it."""
    return work_dir / (f"_{recovery}" if recovery in OF_OTHERS else recovery)


class WorkDir:
    """All folders under `root`, which is made when needed."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._stuck: set[Path] = set()  # what could not be removed, and was told of

    def attempt(self, recovery: str, attempt: int) -> AttemptFolder:
        return AttemptFolder(folder_of(self._root, recovery) / str(attempt))

    def make_attempt(self, recovery: str, attempt: int) -> AttemptFolder:
        """A new, empty folder; what an earlier daemon left under the same name is removed."""
        folder = self.attempt(recovery, attempt)
        _remove(folder.path)
        folder.path.mkdir(parents=True, mode=0o700)
        return folder

    def make_spare(self) -> AttemptFolder:
        path = self._root / _SPARES / uuid.uuid4().hex[:12]
        path.mkdir(parents=True, mode=0o700)
        return AttemptFolder(path)

    def adopt_spare(self, spare: AttemptFolder, recovery: str, attempt: int) -> AttemptFolder:
        """Make a spare's folder the attempt's by a link: the running driver goes on under the name it knows."""
        folder = self.attempt(recovery, attempt)
        _remove(folder.path)
        folder.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.path.symlink_to(spare.path, target_is_directory=True)
        return folder

    def drop_spare(self, spare: AttemptFolder) -> None:
        """Remove the folder of a spare that was never used."""
        shutil.rmtree(spare.path, ignore_errors=True)

    def forget(self, recoveries: Iterable[str]) -> None:
        """Remove all folders of these recoveries in which nothing can run any more."""
        for recovery in recoveries:
            folder = folder_of(self._root, recovery)
            for path in folder.glob("*"):
                if path.name.isdigit() and not self._may_run(path):
                    self._try_remove(path)
            with contextlib.suppress(OSError):
                folder.rmdir()

    def prune(self, in_use: set[Path]) -> None:
        """Remove all but the newest 200 attempts and those that may run, and what spares of earlier daemons left."""
        if not self._root.exists():
            return
        attempts = sorted(self._attempts(), key=_written_s, reverse=True)
        kept = {p.resolve() for p in (*attempts[:KEPT_ATTEMPTS], *in_use)}
        for path in attempts[KEPT_ATTEMPTS:]:
            if path in in_use or self._may_run(path):
                kept.add(path.resolve())
                continue
            self._try_remove(path)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # only when it was the last one
        for path in (self._root / _SPARES).glob("*"):
            if path.resolve() not in kept and not self._may_run(path):
                self.drop_spare(AttemptFolder(path))

    def cut_logs(self) -> None:
        """Cut the logs of all attempts that grew too large, also of those that an earlier daemon started."""
        for path in self._attempts():
            AttemptFolder(path).cut_log()

    def _attempts(self) -> list[Path]:
        folders = (p for p in self._root.glob("*/*") if p.name.isdigit() and p.parent.name not in {_SPARES, *OF_OTHERS})
        return [p for p in folders if _is_folder(p)]

    def _may_run(self, path: Path) -> bool:
        folder = AttemptFolder(path)
        if folder.process() is not None:
            return True
        hidden = folder.hidden_process()
        if hidden is not None and path not in self._stuck:
            self._stuck.add(path)
            _log.warning("The folder %s stays: process %d, which may be of it, cannot be seen from here", path, hidden)
        return hidden is not None

    def _try_remove(self, path: Path) -> None:
        """One that cannot be removed, as where a file in it belongs to somebody else, keeps no other one from it."""
        try:
            _remove(path)
        except OSError as error:
            if path not in self._stuck:
                self._stuck.add(path)
                _log.warning("Could not remove the folder %s of an old attempt: %s", path, error)
        else:
            self._stuck.discard(path)


def _written_s(path: Path) -> float:
    """0 where it went meanwhile, or cannot be seen."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # Python raises where it may not look
        return False


def _remove(path: Path) -> None:
    """Remove an attempt's folder, through the link if it began as a spare. None there is fine."""
    if path.is_symlink():
        shutil.rmtree(path.resolve(), ignore_errors=True)
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
