"""The generated parts of the docs: tables of topics, fields, defaults, events and errors, made from the models and the
catalogue.

docs/errors.md is generated as a whole. docs/contract.md is prose, in which blocks between `<!-- begin NAME -->` and
`<!-- end NAME -->` are generated.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from recoveryd.capabilities import make_codec
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.event_kinds import ANSWERS, HOLD_ENDS, OTHERS, TRANSITIONS, WATCH_ENDS, WORKFLOWS, EventKind
from recoveryd.wire.forms import CommandData
from recoveryd.wire.topics import TopicNames, own_topics
from tools import examples
from tools.markdown import table
from tools.status_schemas import hold_schema, recovery_schema, schedule_schema, watch_schema, workflow_schema

CONTRACT_FILE: Final = Path("docs/contract.md")
ERRORS_FILE: Final = Path("docs/errors.md")
_DAY_MS: Final = 86_400_000
_ERRORS_HEAD: Final = """\
# Errors

Every refusal and failure has a stable code. `recoveryctl explain CODE` prints the same offline.
Made from `daemon/recoveryd/kernel/catalogue.py` by `python -m tools.generate`."""
_BLOCK: Final = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", flags=re.DOTALL)
_SHOWN_BELOW: Final = frozenset(
    {
        "replay",
        "verify",
        "watch",
        "hold",
        "release",
        "reset",
        "reprocess",
        "savepoint",
        "restore_savepoint",
        "upgrade",
        "runbook",
        "schedule",
    }
)  # have a table of their own
_GROUPS: Final = {
    "1": "Commands: refused for what they say",
    "2": "Planning: refused for what the clusters say",
    "3": "While running",
    "4": "Config, topics and command line",
    "5": "The daemon itself",
}


def make_files() -> dict[Path, str]:
    """The pages by path. Reads docs/contract.md, whose prose stays. Raises KeyError for a block without a generator."""
    blocks = _blocks()
    text = CONTRACT_FILE.read_text(encoding="utf-8")
    filled = _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]}\n\n{match[3]}", text)
    return {CONTRACT_FILE: filled, ERRORS_FILE: _errors()}


def _errors() -> str:
    """docs/errors.md: every code with its meaning and next step."""
    parts = [_ERRORS_HEAD]
    for digit, title in _GROUPS.items():
        rows = [
            (f"`{code.value}`", f"`{code.name.lower()}`", code.sentence, code.next_step)
            for code in Code
            if code.value.startswith(f"RCV-{digit}")
        ]
        parts += [f"## {title}", table(("code", "name", "meaning", "next step"), rows)]
    return "\n\n".join(parts) + "\n"


def _blocks() -> dict[str, str]:
    blocks = {
        "topics": _topics(),
        "verbs": _verbs(),
        "replay-fields": _fields_table(make_codec().verbs["replay"].model),
        "verify-fields": _fields_table(make_codec().verbs["verify"].model),
        "watch-fields": _fields_table(make_codec().verbs["watch"].model),
        "reset-fields": _fields_table(make_codec().verbs["reset"].model),
        "reprocess-fields": _fields_table(make_codec().verbs["reprocess"].model),
        "example-reprocess": _example(examples.COMMANDS["reprocess"]),
        "savepoint-fields": _fields_table(make_codec().verbs["savepoint"].model),
        "restore-savepoint-fields": _fields_table(make_codec().verbs["restore_savepoint"].model),
        "upgrade-fields": _fields_table(make_codec().verbs["upgrade"].model),
        "example-upgrade": _example(examples.COMMANDS["upgrade"]),
        "runbook-fields": _fields_table(make_codec().verbs["runbook"].model),
        "example-runbook": _example(examples.COMMANDS["runbook"]),
        "workflow-status-fields": _status_table(workflow_schema()),
        "example-reset": _example(examples.COMMANDS["reset"]),
        "watch-status-fields": _status_table(watch_schema(), "Watched"),
        "schedule-fields": _fields_table(make_codec().verbs["schedule"].model),
        "schedule-status-fields": _status_table(schedule_schema(), "Scheduled"),
        "example-schedule": _example(examples.COMMANDS["schedule"]),
        "example-verify": _example(examples.COMMANDS["verify"]),
        "hold-fields": _fields_table(make_codec().verbs["hold"].model),
        "release-fields": _fields_table(make_codec().verbs["release"].model),
        "hold-status-fields": _status_table(hold_schema(), "Held"),
        "example-hold": _example(examples.COMMANDS["hold"]),
        "example-watch": _example(examples.COMMANDS["watch"]),
        "answers": _kinds(ANSWERS),
        "events": _kinds(TRANSITIONS | OTHERS | WATCH_ENDS | HOLD_ENDS | WORKFLOWS),
        "status-fields": _status_table(recovery_schema()),
        "example-replay": _example(examples.COMMANDS["replay"]),
        "example-answer": _example(examples.ANSWER),
        "example-status": _example({name: part for name, part in examples.STATUS.items() if name != "internal"}),
    }
    for kind, spec in make_codec().signals.items():
        blocks[f"signal-{kind}-fields"] = _fields_table(spec.model)
        blocks[f"example-signal-{kind}"] = _example(examples.SIGNALS[kind])
    return blocks


def _topics() -> str:
    names = TopicNames()
    rows = []
    for topic in own_topics(names):
        configs = dict(topic.configs)
        policy, retention = configs.pop("cleanup.policy"), configs.pop("retention.ms", None)
        cleanup = policy if retention is None else f"{policy} {_span(int(retention))}"
        others = ", ".join(f"`{name}={value}`" for name, value in configs.items())
        where = ", on each target cluster" if topic.on_targets else ""
        rows.append(
            (
                f"`{topic.name}`",
                f"{cleanup}{where}",
                "one per broker" if topic.per_broker else str(topic.partitions),
                others,
            )
        )
    return table(("topic", "cleanup", "partitions", "other settings"), rows)


def _span(ms: int) -> str:
    return f"{ms // _DAY_MS} d" if ms >= _DAY_MS else f"{ms // 60_000} min"


def _verbs() -> str:
    rows = []
    for verb, spec in make_codec().verbs.items():
        own = [name for name in spec.model.model_fields if name not in CommandData.model_fields]
        fields = "see below" if verb in _SHOWN_BELOW else ", ".join(f"`{name}`" for name in own)
        rows.append((f"`{verb}`", fields, spec.effect))
    return table(("verb", "data besides `reason`", "effect"), rows)


def _kinds(kinds: dict[str, EventKind]) -> str:
    rows = (
        (f"`{name}`", kind.meaning, ", ".join(f"`{field}`" for field in kind.fields)) for name, kind in kinds.items()
    )
    return table(("kind", "says", "data"), rows)


def _status_table(schema: dict[str, Any], part: str = "") -> str:
    """The table of a status record's fields, or of one part of it."""
    definitions = schema["$defs"]
    rows = _status_rows(definitions[part] if part else schema, definitions, "")
    return table(("field", "values", "meaning"), rows)


def _status_rows(schema: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[tuple[str, ...]]:
    for name, field in schema["properties"].items():
        path, inner = f"{prefix}{name}", _resolved(field, definitions)
        [*_, first] = [choice for choice in inner.get("anyOf", [inner]) if choice.get("type") != "null"]
        row = _resolved(first.get("items", first), definitions)
        if "properties" in row and "anyOf" not in field.get("items", {}) and "const" not in str(inner.get("anyOf")):
            mark = "[]" if "items" in first else ""
            yield from _status_rows(row, definitions, f"{path}{mark}.")
            continue
        yield f"`{path}`", _schema_text(inner), field.get("description", "")


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema with references resolved, at its top and in its choices."""
    if "$ref" in schema:
        found: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]]
        return found
    if "anyOf" in schema:
        return {**schema, "anyOf": [_resolved(choice, definitions) for choice in schema["anyOf"]]}
    return schema


def _fields_table(model: type[BaseModel]) -> str:
    return table(("field", "values", "default", "meaning"), _rows(model, ""))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, ...]]:
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        inner, is_list = _model_of(info.annotation)
        if inner is not None:
            mark = "[]" if is_list else ""
            if info.is_required() and is_list:
                yield f"`{path}{mark}`", "list", "required", info.description or ""
            yield from _rows(inner, f"{path}{mark}.")
            continue
        yield f"`{path}`", _values(info), _default(info), info.description or ""


def _model_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The model in an annotation, and whether it is in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    is_list = getattr(annotation, "__origin__", None) in {list, tuple}
    for argument in get_args(annotation):
        found, inside = _model_of(argument)
        if found is not None:
            return found, inside or is_list
    return None, False


def _values(info: FieldInfo) -> str:
    field: Any = (info.annotation, info)
    schema = create_model("Holder", field=field).model_json_schema()["properties"]
    return _schema_text(next(iter(schema.values())))


def _schema_text(schema: dict[str, Any]) -> str:
    """What a schema allows, in a few words."""
    if "anyOf" in schema:
        return ", ".join(dict.fromkeys(_schema_text(choice) for choice in schema["anyOf"]))
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if words:
        return ", ".join(f"`{word}`" for word in words)
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_schema_text(schema.get('items', {}))}"
    names = schema.get("properties")
    if names:
        return f"`{{{', '.join(names)}}}`"
    if kind == "string":
        is_duration = schema.get("description", "").startswith("duration")
        return "duration" if is_duration else "time" if schema.get("format") == "date-time" else "text"
    return {"boolean": "true, false", "integer": "whole number"}.get(kind, kind)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.get_default(call_default_factory=True)
    return f"`{json.dumps(default)}`" if default or isinstance(default, bool | int | float | str) else "none"


def _example(value: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"
