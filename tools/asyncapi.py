"""The AsyncAPI 3.1 document: recoveryd's topics as channels, the messages on them, and references to their schemas."""

from typing import Any, Final

from recoveryd.capabilities import make_codec
from recoveryd.wire.topics import OwnTopic, TopicNames, own_topics

_CLOUDEVENT: Final = "application/cloudevents+json"
_NAMES: Final = TopicNames()

# Short name of the channel: (topic, who writes, what it holds, messages, their content type).
_CHANNELS: Final[dict[str, tuple[str, str, tuple[str, ...], str]]] = {
    "control": (
        _NAMES.control,
        "commands of operators and signals of monitors; one answer to each command on `events`",
        (*(f"command.{verb}" for verb in make_codec().verbs), *(f"signal.{kind}" for kind in make_codec().signals)),
        _CLOUDEVENT,
    ),
    "status": (
        _NAMES.status,
        "key = recovery id: its full record; key `_daemon`: applied control offset and epoch",
        ("status", "status.watch", "status.hold", "status.schedule", "status.workflow", "status.daemon"),
        "application/json",
    ),
    "events": (
        _NAMES.events,
        "answers, transitions, policy decisions with their inputs",
        ("event.answer", "event"),
        _CLOUDEVENT,
    ),
    "deadLetters": (
        _NAMES.dlq,
        "control records that could not be read: original key and bytes, error in headers",
        ("deadLetter",),
        "application/octet-stream",
    ),
}


def make_document() -> dict[str, Any]:
    """The document as plain data; it refers to schemas in files beside it."""
    topics = {topic.name: topic for topic in own_topics(_NAMES)}
    return {
        "asyncapi": "3.1.0",
        "info": {
            "title": "recoveryd",
            "version": "1.0.0",
            "description": (
                "Commands to, and records of, a recovery daemon for Apache Kafka. Topic names have a "
                "configurable prefix."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            name: _channel(topics[topic], text, messages) for name, (topic, text, messages, _) in _CHANNELS.items()
        },
        "operations": {
            "receiveControl": _operation("receive", "control"),
            "sendStatus": _operation("send", "status"),
            "sendEvents": _operation("send", "events"),
            "sendDeadLetters": _operation("send", "deadLetters"),
        },
        "components": {"messages": _messages()},
    }


def _channel(topic: OwnTopic, description: str, messages: tuple[str, ...]) -> dict[str, Any]:
    kept: dict[str, Any] = {"cleanup.policy": [topic.configs["cleanup.policy"]]}
    if "retention.ms" in topic.configs:
        kept["retention.ms"] = int(topic.configs["retention.ms"])
    return {
        "address": topic.name,
        "description": description,
        "messages": {_id(name): {"$ref": f"#/components/messages/{_id(name)}"} for name in messages},
        "bindings": {"kafka": {"topic": topic.name, "partitions": topic.partitions, "topicConfiguration": kept}},
    }


def _operation(action: str, channel: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}


def _messages() -> dict[str, Any]:
    messages: dict[str, Any] = {}
    for _, _, names, content_type in _CHANNELS.values():
        for name in names:
            messages[_id(name)] = {"name": _id(name), "contentType": content_type}
            if name != "deadLetter":
                messages[_id(name)]["payload"] = {"$ref": f"./{name}.v1.json"}
    messages["deadLetter"]["payload"] = {"description": "the bytes of the control record"}
    messages["deadLetter"]["headers"] = {
        "type": "object",
        "properties": {
            f"recoveryd-{name}": {"type": "string"}
            for name in ("error-code", "error-message", "original-partition", "original-offset", "time")
        },
    }
    return messages


def _id(name: str) -> str:
    first, *rest = name.split(".")
    return first + "".join(part.capitalize() for part in rest)
