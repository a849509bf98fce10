"""The images of the container tests: public ones if the registry answers, otherwise the same built without it."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.jars import KAFKA_VERSION, kafka_jars
from tests.containers import local_base, registry
from tests.containers.steps import timed

CHECKOUT = Path(__file__).resolve().parents[2]

PUBLIC_BASE = "python:3.11-slim-bookworm"  # the Dockerfile's own default
PUBLIC_KAFKA = f"apache/kafka:{KAFKA_VERSION}"
KAFKA_TAG = "recoveryd-test/kafka:local"
PRODUCT_TAG = "recoveryd-test/recoveryd:local"

_RECIPES = Path(__file__).parent / "images"


@dataclass(frozen=True)
class Images:
    """Tags. `made`: those this run made, which it removes again. `kafka_is_public`: apache/kafka itself runs."""

    kafka: str
    product: str
    kafka_is_public: bool
    made: tuple[str, ...]


def obtain() -> Images:
    """All images of the suite. Raises `EngineUnavailable`, `EngineFailed` or `registry.BuildFailed`."""
    made: list[str] = []
    try:
        return _obtain(made)
    except BaseException:
        registry.remove(made)
        raise


def _obtain(made: list[str]) -> Images:
    with timed("pull of public images"):
        has_base, has_kafka = registry.can_pull(PUBLIC_BASE), registry.can_pull(PUBLIC_KAFKA)
    if not (has_base and has_kafka):
        with timed("local base"):
            made.append(local_base.import_base())
    if not has_base:
        with timed("wheels and builder"):
            made.append(local_base.build_builder(CHECKOUT, _RECIPES / "builder"))
    if not has_kafka:
        with timed("Kafka image"):
            made.append(_build_kafka())
    with timed("product image"):
        bases = {} if has_base else {"BASE": local_base.BASE_TAG, "BUILDER": local_base.BUILDER_TAG}
        made.append(registry.build(CHECKOUT, PRODUCT_TAG, bases))
    return Images(PUBLIC_KAFKA if has_kafka else KAFKA_TAG, PRODUCT_TAG, has_kafka, tuple(reversed(made)))


def _build_kafka() -> str:
    with tempfile.TemporaryDirectory(prefix="recoveryd-kafka-image-") as folder:
        context = Path(folder) / "context"
        shutil.copytree(_RECIPES / "kafka", context)
        shutil.copytree(kafka_jars(), context / "jars")
        return registry.build(context, KAFKA_TAG, {"BASE": local_base.BASE_TAG})
