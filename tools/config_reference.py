"""The config reference, config/recoveryd.yaml (every option with its default and one line), made from the model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from recoveryd.settings.model import SettingsModel

FILE: Final = Path("config/recoveryd.yaml")
_HEAD: Final = """\
# The config of recoveryd: every option with its default. Only clusters.main.bootstrap.servers is required, here, as
# --bootstrap HOST:PORT or as RECOVERYD_BOOTSTRAP_SERVERS; keep of the rest what you change.
#
# Each option is also an environment variable: RECOVERYD_ and the key with __ between its parts, for instance
# RECOVERYD_LOG__LEVEL=debug; RECOVERYD_CONFIG names this file. Flags win over variables, variables over the file. What
# stands below a name with capitals, dashes or dots, as Spark's properties do, is given as one mapping:
# RECOVERYD_PROFILES__DEFAULT__CONF='{spark.executor.memory: 4g}'.
# Unknown keys are errors. Durations: 5s, 1h30m, PT5S or seconds. Sizes: 32MiB, 30MB or bytes.
#
# Made by `python -m tools.generate`; edit daemon/recoveryd/settings/model.py instead.
"""
_CLUSTERS: Final = """\
# Named clusters with Kafka's own client properties; `main` carries recoveryd's topics. Commands name clusters, never
# addresses. A secret is {file: /run/secrets/NAME}, {env: NAME}, or ${file:PATH} and ${env:NAME} inside a text; a path is
# relative to the file that names it. The same goes for the key of a webhook and the secrets of a unit's `control`.
clusters:
  main:
    # Required. HOST:PORT of at least one broker, comma separated.
    bootstrap.servers: 127.0.0.1:9092
    # security.protocol: SASL_SSL
    # sasl.mechanism: SCRAM-SHA-512
    # sasl.jaas.config: org.apache.kafka.common.security.scram.ScramLoginModule required username="recoveryd" password="${file:/run/secrets/kafka}";
    # ssl.truststore.type: PEM
    # ssl.truststore.location: /etc/ssl/kafka-ca.pem
"""


def _reference() -> str:
    return "\n".join([_HEAD, _CLUSTERS, *_sections()])


def _sections() -> Iterator[str]:
    for name, info in SettingsModel.model_fields.items():
        if name != "clusters":
            yield "\n".join(_option(name, info, info.get_default(call_default_factory=True), 0)) + "\n"


def _option(name: str, info: FieldInfo, default: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    yield f"{indent}# {info.description}"
    if isinstance(default, BaseModel):
        yield f"{indent}{name}:"
        yield from _model(default, depth + 1)
    elif isinstance(default, dict) and default:
        yield f"{indent}{name}:"
        for inner_name, inner in default.items():
            yield f"{indent}  {inner_name}:"
            yield from _model(inner, depth + 2)
    else:
        yield f"{indent}{name}: {_text(default)}"


def _model(model: BaseModel, depth: int) -> Iterator[str]:
    shown = model.model_dump(mode="json")
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        yield from _option(name, info, value if isinstance(value, BaseModel) else shown[name], depth)


def _text(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=200).removesuffix("...\n").strip()


def make_files() -> dict[Path, str]:
    return {FILE: _reference()}
