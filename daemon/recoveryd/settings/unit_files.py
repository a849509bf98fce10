"""Units from files: one YAML per unit under `units_dir`, and texts of topologies beside the file that names them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from recoveryd.errors import ConfigProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.sources import Key, Origin, Tree, beside, located, origin_of, read_file
from recoveryd.settings.units import UnitSection
from recoveryd.units.model import ControlKind, Output, Unit
from recoveryd.units.topology import MAX_CHARS, Topology, TopologyProblem, parse_topology

_ENDINGS: Final = (".yaml", ".yml")
_FILES_MOST: Final = 10_000


def put_unit_files(tree: Tree) -> None:
    """Lay the files of `units_dir` into the tree, each as the unit of its name. Raises `ConfigProblem` with file and
    line.
    """
    folder = tree.values.get("units_dir")
    if not isinstance(folder, str):
        return
    for path in _files(located(("units_dir",), tree.origins)(folder), tree):
        name, read = path.stem, read_file(path)
        units = tree.values.get("units") or {}
        if isinstance(units, dict) and name in units:
            raise tree.problem(("units", name), f"is given twice, also in {path}")
        tree.put(("units", name), read.values, Origin(str(path), 1))
        for key, origin in read.origins.items():
            tree.origins["units", name, *key] = origin


def make_unit(name: str, section: UnitSection, origins: Mapping[Key, Origin]) -> Unit:
    """The unit as the rules know it. Reads the text of its topology; raises `ConfigProblem`."""
    return Unit(
        name=name,
        kind=section.kind,
        cluster=section.cluster,
        group=section.group,
        inputs=section.inputs,
        intermediate=section.intermediate,
        outputs={topic: Output(output.behaviour, output.owner) for topic, output in section.outputs.items()},
        internal_topics=None if section.internal_topics == "auto" else section.internal_topics,
        topology=_topology(name, section.topology, origins),
        stateful=section.stateful,
        owner=section.owner,
        approvers=section.approvers,
        retention_objective_ms=section.retention_objective,
        control=section.control.kind,
        stop_timeout_ms=0 if section.control.kind is ControlKind.MANUAL else section.control.stop_timeout,
        schema=section.schema_note,
        is_deterministic=section.deterministic,
        is_exactly_once=section.exactly_once,
        confirmations=section.confirmations,
        sink_behaviour=section.sink_behaviour,
        required_clauses=section.required_clauses,
    )


def _files(folder: Path, tree: Tree) -> Iterator[Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS and not path.name.startswith("."))
    except OSError as error:
        raise tree.problem(("units_dir",), f"cannot be read: {folder}: {error.strerror}") from None
    if len(paths) > _FILES_MOST:
        raise tree.problem(("units_dir",), f"holds more than {_FILES_MOST} files")
    return iter(paths)


def _topology(name: str, file: str | None, origins: Mapping[Key, Origin]) -> Topology | None:
    if file is None:
        return None
    key = ("units", name, "topology")
    origin = origin_of(key, origins)
    path = beside(file, key, origin)

    def problem(message: str, hint: str = "", code: Code = Code.CONFIG_INVALID) -> ConfigProblem:
        return ConfigProblem(message, hint, code=code, key=".".join(key), origin=origin.name, line=origin.line)

    try:
        with path.open(encoding="utf-8") as lines:
            return parse_topology(lines.read(MAX_CHARS + 1))
    except OSError as error:
        raise problem(f"{path}: {error.strerror}.", code=Code.CONFIG_UNREADABLE) from None
    except UnicodeDecodeError:
        raise problem(f"{path} is not UTF-8.", code=Code.CONFIG_UNREADABLE) from None
    except TopologyProblem as bad:
        hint = "Print it in the application with System.out.println(builder.build(properties).describe())."
        raise problem(f"{path}: {bad}.", hint) from None
