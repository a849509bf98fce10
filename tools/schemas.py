"""config/schemas: JSON Schemas of all records and of the config, made from the models, and the AsyncAPI document that
refers to them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel

from recoveryd.capabilities import make_codec
from recoveryd.settings import schema as config_schema
from recoveryd.wire.cloudevents import MAX_ATTRIBUTE_CHARS
from recoveryd.wire.codec import COMMAND_TYPE, SIGNAL_TYPE, SUBJECT_PATTERN
from recoveryd.wire.event_kinds import ANSWERS, EVENT_KINDS
from recoveryd.wire.events import EVENT_TYPE
from tools import asyncapi, examples
from tools.status_schemas import (
    daemon_schema,
    hold_schema,
    recovery_schema,
    schedule_schema,
    watch_schema,
    workflow_schema,
)

FOLDER: Final = Path("config/schemas")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": MAX_ATTRIBUTE_CHARS}
_TIME: Final = {"type": "string", "format": "date-time"}


def make_schemas() -> dict[str, dict[str, Any]]:
    """File name to JSON Schema."""
    schemas: dict[str, dict[str, Any]] = {}
    for verb, spec in make_codec().verbs.items():
        more = list(examples.MORE.get(verb, ()))
        schemas[f"command.{verb}.v1.json"] = _control_schema(
            COMMAND_TYPE.format(verb), spec.effect, spec.model, [examples.COMMANDS[verb], *more], needs_subject=True
        )
    for kind, signal in make_codec().signals.items():
        schemas[f"signal.{kind}.v1.json"] = _control_schema(
            SIGNAL_TYPE.format(kind), signal.meaning, signal.model, [examples.SIGNALS[kind]], needs_subject=False
        )
    schemas["event.answer.v1.json"] = _answer_schema()
    schemas["event.v1.json"] = _event_schema()
    schemas["status.v1.json"] = recovery_schema() | {"examples": [examples.STATUS]}
    schemas["status.watch.v1.json"] = watch_schema() | {"examples": [examples.WATCH_STATUS]}
    schemas["status.workflow.v1.json"] = workflow_schema() | {"examples": [examples.WORKFLOW_STATUS]}
    schemas["status.schedule.v1.json"] = schedule_schema() | {"examples": [examples.SCHEDULE_STATUS]}
    schemas["status.hold.v1.json"] = hold_schema() | {"examples": [examples.HOLD_STATUS]}
    schemas["status.daemon.v1.json"] = daemon_schema()
    return {
        name: {"$schema": _DIALECT, "title": name.removesuffix(".json")} | schema for name, schema in schemas.items()
    }


def make_files() -> dict[Path, str]:
    files = {FOLDER / name: json.dumps(schema, indent=2) + "\n" for name, schema in make_schemas().items()}
    files[FOLDER / "config.json"] = json.dumps(config_schema(), indent=2) + "\n"
    document = asyncapi.make_document()
    files[FOLDER / "asyncapi.yaml"] = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return files


def _control_schema(
    event_type: str, description: str, model: type[BaseModel], shown: list[dict[str, Any]], *, needs_subject: bool
) -> dict[str, Any]:
    data = _model_schema(model)
    definitions = data.pop("$defs", {})
    schema = {
        "description": description,
        "type": "object",
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {**_TEXT, "description": "with source, the idempotency key"},
            "source": dict(_TEXT),
            "type": {"const": event_type},
            "subject": {"type": "string", "pattern": f"^{SUBJECT_PATTERN}$", "description": "the recovery's id"},
            "time": {**_TIME, "description": "with zone"},
            "expirytime": {**_TIME, "description": "with zone; not done once it has passed"},
            "datacontenttype": {"type": "string"},
            "data": data,
        },
        "required": ["specversion", "id", "source", "type", *(["subject"] if needs_subject else []), "data"],
        "propertyNames": {"pattern": "^[a-z0-9]+$"},
        "examples": shown,
    }
    return schema | ({"$defs": definitions} if definitions else {})


def _answer_schema() -> dict[str, Any]:
    fields = ANSWERS["command_accepted"].fields
    data = {name: {"type": "integer"} if name == "control_offset" else {"type": "string"} for name in fields}
    schema = _event_envelope("the one answer to a control record", list(ANSWERS))
    schema["properties"]["causationid"] = {**_TEXT, "description": "the command's id"}
    schema["properties"]["data"] = {"type": "object", "properties": data, "required": list(fields)}
    return schema | {"examples": [examples.ANSWER]}


def _event_schema() -> dict[str, Any]:
    schema = _event_envelope("a fact on the events topic", list(EVENT_KINDS))
    schema["properties"]["causationid"] = {**_TEXT, "description": "id of the command that caused it, if one did"}
    schema["properties"]["data"] = {"type": "object"}
    schema["oneOf"] = [
        {
            "description": kind.meaning,
            "properties": {
                "type": {"const": EVENT_TYPE.format(name)},
                "data": {"type": "object", "required": list(kind.fields)},
            },
        }
        for name, kind in EVENT_KINDS.items()
    ]
    return schema


def _event_envelope(description: str, kinds: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "specversion": {"const": "1.0"},
        "id": {**_TEXT, "description": "UUIDv7"},
        "source": {"type": "string", "pattern": "^//recoveryd/"},
        "type": {"enum": [EVENT_TYPE.format(kind) for kind in kinds]},
        "subject": {"type": "string", "description": "the recovery's id"},
        "time": _TIME,
        "datacontenttype": {"const": "application/json"},
    }
    required = ["specversion", "id", "source", "type", "time", "data"]
    return {"description": description, "type": "object", "properties": properties, "required": required}


def _model_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = _without_titles(model.model_json_schema(by_alias=True))
    assert isinstance(schema, dict)
    return schema


def _without_titles(schema: Any) -> Any:
    """The schema without titles: pydantic makes them from Python names, which help no reader."""
    if isinstance(schema, Mapping):
        return {
            name: _without_titles(inner)
            for name, inner in schema.items()
            if not (name == "title" and isinstance(inner, str))
        }
    return [_without_titles(inner) for inner in schema] if isinstance(schema, list) else schema
